"""Every real host, over every transport, with every real server behind one hub.

A host runs once per transport and walks all steps; the tests look at its report.
"""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from hub.wire import mcp
from tests.support.everything import everything_but, parameters_of
from tests.support.processes import HUBD, NODE_ENV, PYTHON_1, PYTHON_2

HOSTS = Path(__file__).parent / "hosts"
LIMIT_S = 240
AT_A_TIME = 3


class HostProgram(NamedTuple):
    """A client to run, the mode it is told, and the revision it should end up with."""

    argv: tuple
    version: str | None
    mode: str = "auto"
    sdk: int | None = None


PROGRAMS = {
    "py1": HostProgram((PYTHON_1, HOSTS / "py1.py"), mcp.L4),
    "py2-legacy": HostProgram((PYTHON_2, HOSTS / "py2.py"), mcp.L4, "legacy"),
    "py2": HostProgram((PYTHON_2, HOSTS / "py2.py"), mcp.MODERN),
    "fastmcp": HostProgram((PYTHON_2, HOSTS / "fast.py"), mcp.MODERN),
    "node1": HostProgram(("node", HOSTS / "node.cjs"), None, sdk=1),
    "node2-legacy": HostProgram(("node", HOSTS / "node.cjs"), mcp.L4, "legacy", sdk=2),
    "node2": HostProgram(("node", HOSTS / "node.cjs"), mcp.MODERN, sdk=2),
}
HOST_WAYS = [(name, way) for name in PROGRAMS for way in ("http", "stdio")]
SOME = [("py1", "stdio"), ("py2", "http"), ("node1", "http"), ("node2", "stdio")]
"""The hosts of `make test`: each era over each transport."""
OWN = ("py", "py-http", "node", "node-http")
"""Upstreams on the SDKs of the modern era, with tools of our own."""
SCHEME = {"py": "py", "py-http": "pyhttp", "node": "node", "node-http": "nodehttp"}
EVERYTHING = ("everything", "every-http", "every-sse")
"""The same handshake-era server over stdio, Streamable HTTP and HTTP+SSE; the first owns the URIs they share."""


def echo_calls(files):
    """Upstream -> a call that shows it is there, and a text its answer holds."""
    calls = {name: ("echo", {"text": f"hello {name} \u00fc"}, f"hello {name} \u00fc") for name in OWN}
    calls |= {name: ("echo", {"message": f"hi {name}"}, f"Echo: hi {name}") for name in EVERYTHING}
    calls["files"] = ("read_text_file", {"path": str(files / "hello.txt")}, "hello from a file")
    calls["time"] = ("get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"')
    return calls


def steps(files):
    """What every host does: a label, and the step as the host programs understand it."""
    plan = {kind: [kind] for kind in ("tools", "resources", "templates", "prompts")}
    for name, (tool, arguments, _) in echo_calls(files).items():
        plan[f"echo {name}"] = ["call", f"{name}__{tool}", arguments]
    for name in OWN:
        plan[f"add {name}"] = ["call", f"{name}__add", {"a": 2, "b": 3}]
        plan[f"fail {name}"] = ["call", f"{name}__fail", {}]
        plan[f"log {name}"] = ["call", f"{name}__log", {"text": f"log of {name}"}]
        plan[f"progress {name}"] = ["call", f"{name}__progress", {"steps": 3}]
        plan[f"note {name}"] = ["read", f"{SCHEME[name]}://note"]
        plan[f"item {name}"] = ["read", f"{SCHEME[name]}://item/7"]
        plan[f"prompt {name}"] = ["prompt", f"{name}__greet", {"name": "Ada"}]
        ref = {"type": "ref/prompt", "name": f"{name}__greet"}
        plan[f"complete {name}"] = ["complete", ref, {"name": "name", "value": "A"}]
    for name in EVERYTHING:
        tag = "" if name == "everything" else f"hub.{name}+"
        plan[f"progress {name}"] = ["call", f"{name}__trigger-long-running-operation", {"duration": 0.6, "steps": 3}]
        plan[f"item {name}"] = ["read", f"{tag}demo://resource/dynamic/text/1"]
        plan[f"prompt {name}"] = ["prompt", f"{name}__args-prompt", {"city": "Ulm", "state": "BW"}]
        ref = {"type": "ref/prompt", "name": f"{name}__completable-prompt"}
        plan[f"complete {name}"] = ["complete", ref, {"name": "department", "value": "E"}]
        plan[f"link {name}"] = ["call", f"{name}__get-resource-reference", {"resourceType": "Text", "resourceId": 1}]
    plan["no such tool"] = ["call", "py__nosuch", {}]
    plan["no such resource"] = ["read", "py://nosuch"]
    return plan


class Report:
    """What a host saw, by label."""

    def __init__(self, labels, printed):
        self.version = printed["version"]
        self.logs = printed["logs"]
        self.answers = dict(zip(labels, printed["answers"], strict=True))

    def text(self, label):
        """The first text in the answer to a call, a read or a prompt."""
        answer = self.answers[label]
        assert "error" not in answer, (label, answer)
        for content in answer.get("content", []) + answer.get("contents", []):
            if "text" in content:
                return content["text"]
        return answer["messages"][0]["content"]["text"]


def report_of(name, way, hub, files, records):
    """One host's report of all steps over one transport."""
    program = PROGRAMS[name]
    labelled = steps(files)
    plan = {"mode": program.mode, "sdk": program.sdk, "steps": list(labelled.values())}
    if way == "http":
        plan |= {"url": hub.url, "token": hub.token}
    else:
        plan |= {"command": records.tee("host", name, [HUBD, "connect", "--host", name]), "env": hub.env}
    argv = [*map(str, program.argv), json.dumps(plan)]
    env = {**os.environ, **NODE_ENV}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{name} over {way} failed:\n{done.stderr[-4000:]}\nhub:\n{hub.process.tail()}"
    found = Report(labelled, json.loads(done.stdout))
    found.program = program
    return found


@pytest.fixture(scope="package")
def reports(hub, files, records, request):
    """The reports of all chosen hosts, a few of which run at a time; each says whether its host has failed."""
    chosen = parameters_of(request, "report")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return {host: pool.submit(report_of, *host, hub, files, records) for host in HOST_WAYS if host in chosen}


@pytest.fixture(scope="package", params=everything_but(SOME, HOST_WAYS, packed=True), ids="-".join)
def report(request, reports):
    """The report of one host over one transport."""
    return reports[request.param].result()


@pytest.mark.covers("V-5", "V-6", "V-14")
def test_host_and_hub_agree_on_the_newest_revision_of_the_hosts_era(report):
    if report.program.version is not None:
        assert report.version == report.program.version


def test_every_servers_tools_are_listed(report, files):
    names = {tool["name"] for tool in report.answers["tools"]["tools"]}
    assert {f"{name}__{tool}" for name, (tool, _, _) in echo_calls(files).items()} <= names


def test_every_servers_other_offers_are_listed(report):
    resources = {entry["uri"] for entry in report.answers["resources"]["resources"]}
    assert {f"{scheme}://note" for scheme in SCHEME.values()} <= resources
    templates = {entry["uriTemplate"] for entry in report.answers["templates"]["resourceTemplates"]}
    assert {f"{scheme}://item/{{id}}" for scheme in SCHEME.values()} <= templates
    owned = "demo://resource/dynamic/text/{resourceId}"
    assert {owned, f"hub.every-http+{owned}", f"hub.every-sse+{owned}"} <= templates
    prompts = {entry["name"] for entry in report.answers["prompts"]["prompts"]}
    assert {f"{name}__greet" for name in OWN} | {f"{name}__args-prompt" for name in EVERYTHING} <= prompts


@pytest.mark.parametrize("name", [*OWN, *EVERYTHING, "files", "time"])
def test_a_call_reaches_each_server(report, files, name):
    assert echo_calls(files)[name][2] in report.text(f"echo {name}")


@pytest.mark.parametrize("name", OWN)
def test_structured_content_and_tool_errors_come_through(report, name):
    assert report.answers[f"add {name}"]["structuredContent"] == {"result": 5}
    failed = report.answers[f"fail {name}"]
    assert failed["isError"] is True
    assert "failed on purpose" in report.text(f"fail {name}")


@pytest.mark.covers("P-2")
@pytest.mark.parametrize("name", [*OWN, *EVERYTHING])
def test_progress_arrives_under_the_hosts_own_token(report, name):
    seen = report.answers[f"progress {name}"].get("progress", [])
    assert seen == sorted(seen)
    # npm clients lose progress that they read together with the answer, which a busy machine makes of any pause between
    # the two; they do so without a hub, too. Whether the hub sent it is held by the clients that lose none.
    npm = report.program.sdk is not None
    assert seen[-1:] == [[3, 3]] or (npm and seen and all(total == 3 for _, total in seen))


@pytest.mark.parametrize("name", OWN)
def test_logs_of_a_call_arrive(report, name):
    assert {"level": "warning", "data": f"log of {name}"} in report.logs


@pytest.mark.parametrize("name", OWN)
def test_resources_and_templates_are_read(report, name):
    assert report.text(f"note {name}") == f"note of {SCHEME[name]}"
    assert report.text(f"item {name}") == f"item 7 of {SCHEME[name]}"


@pytest.mark.parametrize("name", EVERYTHING)
def test_contested_uris_lead_to_the_server_that_gave_them(report, name):
    assert "Resource 1" in report.text(f"item {name}")
    uri = "demo://resource/dynamic/text/1"
    links = [
        part["resource"]["uri"] for part in report.answers[f"link {name}"]["content"] if part["type"] == "resource"
    ]
    assert links == [uri if name == "everything" else f"hub.{name}+{uri}"]


@pytest.mark.parametrize("name", [*OWN, *EVERYTHING])
def test_prompts_are_got_and_their_arguments_completed(report, name):
    said = report.text(f"prompt {name}")
    assert ("Ulm" if name in EVERYTHING else f"Greet Ada from {SCHEME[name]}.") in said
    values = report.answers[f"complete {name}"]["completion"]["values"]
    assert values == (["Engineering"] if name in EVERYTHING else ["Ada", "Alan"])


def test_what_does_not_exist_is_an_error(report):
    unknown = report.answers["no such tool"]
    assert unknown.get("isError") or "error" in unknown
    assert "error" in report.answers["no such resource"]
