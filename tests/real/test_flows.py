"""Every flow of the protocol, in all four pairs of eras, over stdio and HTTP on both sides, between real SDKs.

A host runs once per transport and walks all its flows with all upstreams; the tests look at its report. Beside that,
everything the hub said meanwhile is judged by the schemas.

A test is named by flow, pair (the host's era, then the upstream's: L legacy, M modern), the host's transport, the
upstream's transport.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from conftest import SERVERS, Records, table
from processes import HUBD, PYTHON_1, PYTHON_2, running, running_hub
from traffic import HttpTraffic, Verdict, read_lines

from hub.wire import mcp

HOSTS = Path(__file__).parent / "hosts"
LIMIT_S = 120
WAYS = ("stdio", "http")
PAIRS = ("LL", "LM", "ML", "MM")
PYTHONS = {"L": (PYTHON_1, "flows1"), "M": (PYTHON_2, "flows2")}
ERAS = {"L": "legacy", "M": "modern"}


# --- the one list -----------------------------------------------------------------------------------------------------

ROOT = "file:///work/one"
GREETED = "m-1 said hello (endTurn)"


def ada(text):
    """What the user answers to that question."""
    return f"accept Ada({text[-6:]})"


def sampled(case, saw):
    assert saw["text"] == GREETED
    (asked,) = saw["asked"]
    assert asked["sampling"]["maxTokens"] == 50
    (message,) = asked["sampling"]["messages"]
    assert message["content"] == {"type": "text", "text": "what"}


def sampled_with_tools(case, saw):
    assert saw["text"] == "let me see: weather Ulm (toolUse)"
    (asked,) = saw["asked"]
    assert [tool["name"] for tool in asked["sampling"]["tools"]] == ["weather"]


def elicited(text, answer):
    def check(case, saw):
        assert saw["text"] == answer
        (asked,) = saw["asked"]
        assert asked["elicitation"]["message"] == f"[{case.upstream}] {text}"
        assert asked["elicitation"]["requestedSchema"]["properties"]["name"]["type"] == "string"

    return check


def went_to_page(case, saw):
    assert saw["text"] == "url accept"
    (asked,) = saw["asked"]
    assert (asked["elicitation"]["mode"], asked["elicitation"]["url"]) == ("url", "https://example.com/sign-in")
    assert ("elicitationId" in asked["elicitation"]) == (case.pair[0] == "L")


def came_back_from_page(case, saw):
    key = f"{case.host}-{case.upstream}"
    assert saw["text"] == f"visited {key}"
    if case.pair == "LL":
        assert saw["url"] == f"https://example.com/{key}"
        assert saw["id"] != key
    else:
        assert saw["asked"][0]["elicitation"]["url"] == f"https://example.com/{key}"


def told_roots(case, saw):
    assert saw["text"] == ROOT


def told_new_roots(case, saw):
    assert saw["text"] == f"file:///work/{case.scheme}"


def answered_both(case, saw):
    assert saw["text"] == f"{ada('] Who?')} and {GREETED}"
    assert sorted(next(iter(asked)) for asked in saw["asked"]) == ["elicitation", "sampling"]


def answered_twice(case, saw):
    assert saw["text"] == f"{ada('First?')}, {ada('econd?')}"
    assert len(saw["asked"]) == 2


def got_prompt(case, saw):
    assert saw["text"] == f"Brief {ada(' Whom?')}."


def heard_update(case, saw):
    assert saw == {"uri": f"{case.scheme}://board"}


def saw_list_change(case, saw):
    assert saw == {"before": False, "after": True, "text": f"grown_{case.host}_{case.scheme}"}


def saw_progress(case, saw):
    assert saw == {"text": "3 steps", "progress": [[1, 3], [2, 3], [3, 3]]}


def was_cancelled(case, saw):
    assert saw == {"text": "cancelled"}


def heard_logs(case, saw):
    assert saw["text"] == "logged"
    text = f"of {case.upstream}"
    heard = [each for each in saw["logs"] if text in each["data"]]
    assert heard == [{"level": level, "data": f"{level} {text}"} for level in ("warning", "error")]


def saw_values(case, saw):
    assert saw == {"values": ["Ada", "Alan"]}


def saw_result(case, saw):
    assert saw == {"text": "task done"}


def saw_asking_result(case, saw):
    assert saw["text"] == f"task {ada('Go on?')}"
    assert len(saw["asked"]) == 1


def saw_task(case, saw):
    assert saw["text"] == "task done"
    assert saw["statuses"][-1] == "completed"


def saw_asking_task(case, saw):
    assert saw["text"] == f"task {ada('Go on?')}"
    assert saw["statuses"][-1] == "completed"
    assert "input_required" in saw["statuses"]


def saw_app(case, saw):
    assert saw == {
        "links": [f"ui://{case.upstream}~{case.scheme}/app.html"],
        "mime": "text/html;profile=mcp-app",
        "ui": {"prefersBorder": True},
        "page": "<!doctype html><title>A clock</title>",
        "text": "noon",
    }


class Flow(NamedTuple):
    """What a host must have seen, in which pairs there is such a thing, and what of the specification that shows."""

    check: Callable
    covers: tuple[str, ...]
    pairs: tuple[str, ...] = PAIRS
    shared: bool = False
    """What is seen is the state of one process for all hosts."""


FLOWS = {
    "sampling": Flow(sampled, ("R-16", "C-9")),
    "sampling_tools": Flow(sampled_with_tools, ("R-16",)),
    "elicitation_accept": Flow(elicited("Who are you?", ada("e you?")), ("R-16", "G-10")),
    "elicitation_decline": Flow(elicited("You decline?", "decline"), ("R-18", "G-10")),
    "elicitation_cancel": Flow(elicited("You cancel?", "cancel"), ("R-18", "G-10")),
    "elicitation_url": Flow(went_to_page, ("G-2",)),
    # Modern servers have no such error.
    "url_required": Flow(came_back_from_page, ("G-2",), ("LL", "ML")),
    "roots": Flow(told_roots, ("G-11",)),
    # A question that does not say which request it belongs to, as the legacy SDK asks for roots.
    "roots_aside": Flow(told_roots, ("G-11",), ("LL", "ML")),
    # Modern hosts do not tell that their roots are others now.
    "roots_changed": Flow(told_new_roots, ("C-7",), ("LL", "LM")),
    "two_questions": Flow(answered_both, ("R-11",)),
    "two_rounds": Flow(answered_twice, ("R-12",)),
    "prompt_asks": Flow(got_prompt, ("R-2",)),
    "subscription": Flow(heard_update, ("N-1", "N-13"), shared=True),
    "list_changed": Flow(saw_list_change, ("N-8",), shared=True),
    "progressing": Flow(saw_progress, ("P-2",)),
    "cancellation": Flow(was_cancelled, ("P-7", "P-10")),
    "logging": Flow(heard_logs, ("N-9",)),
    "completion": Flow(saw_values, ("S-1",)),
    "task": Flow(saw_result, ("X-2", "X-3")),
    "task_asks": Flow(saw_asking_result, ("X-2", "X-3")),
    # Legacy hosts are never shown tasks (bridging.md 11).
    "task_shown": Flow(saw_task, ("X-5",), ("ML", "MM")),
    "task_asks_shown": Flow(saw_asking_task, ("X-5",), ("ML", "MM")),
    "apps": Flow(saw_app, ("X-15", "X-16")),
}


class Case(NamedTuple):
    """One flow, on one way through the hub."""

    flow: str
    pair: str
    host_way: str
    upstream_way: str

    @property
    def host(self):
        return f"{ERAS[self.pair[0]]}-{self.host_way}"

    @property
    def upstream(self):
        """Its name. Processes that each host has for itself share no state, so flows that need it have a shared one."""
        name = {"L": "old", "M": "new"}[self.pair[1]] + ("-http" if self.upstream_way == "http" else "")
        return "old-shared" if name == "old" and FLOWS[self.flow].shared else name

    @property
    def scheme(self):
        return self.upstream.replace("-", "")


CASES = [
    Case(name, pair, host_way, upstream_way)
    for name, flow in FLOWS.items()
    for pair in flow.pairs
    for host_way in WAYS
    for upstream_way in WAYS
]


# --- the hub and the hosts --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return Records(tmp_path_factory.mktemp("flow-records"))


@pytest.fixture(scope="module")
def hub(tmp_path_factory, records):
    """A hub in front of servers of both eras over both transports; its URL is that of a relay."""
    directory = tmp_path_factory.mktemp("flow-hub")
    programs = {"old": (PYTHON_1, SERVERS / "flows1_server.py"), "new": (PYTHON_2, SERVERS / "flows2_server.py")}
    with contextlib.ExitStack() as stack:
        servers = {
            f"{name}-http": stack.enter_context(running([*argv, f"{name}http", "--http"], directory / f"{name}.log"))
            for name, argv in programs.items()
        }
        front = stack.enter_context(records.relay("host", "hub"))
        config = [f'allowed_hosts = ["{front.address}"]', "startup_grace_s = 60.0"]
        for name, scheme, entries in (
            # Each host its own process: only so it may learn of the host's roots.
            ("old", "old", {"session_mode": "per_host"}),
            ("old-shared", "oldshared", {"session_mode": "shared", "across_principals": True}),
            ("new", "new", {"era": "modern", "across_principals": True}),
        ):
            command, *args = records.tee("upstream", name, [*programs[name[:3]], scheme])
            config.append(table(name, command=command, args=args, **{"era": "legacy", "apps": True, **entries}))
        for name, server in servers.items():
            parts = urlsplit(server.wait_for(r"http://\S+")[0])
            relay = stack.enter_context(records.relay("upstream", name, parts.port))
            era = "legacy" if name == "old-http" else "modern"
            config.append(table(name, url=parts._replace(netloc=relay.address).geturl(), era=era, apps=True))
        started = stack.enter_context(running_hub(directory, "\n".join(config)))
        parts = urlsplit(started.url)
        front.port = parts.port
        yield started._replace(url=parts._replace(netloc=front.address).geturl())


def report(hub, records, era, way):
    """What a host of that era saw over that transport: by case, and the revision."""
    python, program = PYTHONS[era]
    cases = [case for case in CASES if (case.pair[0], case.host_way) == (era, way)]
    name = f"{ERAS[era]}-{way}"
    plan = {
        "name": name,
        "turns": str(records.directory / "turns-"),
        "flows": [[case.flow, case.upstream, case.scheme] for case in cases],
    }
    if way == "http":
        plan |= {"url": hub.url, "token": hub.token}
    else:
        plan |= {"command": records.tee("host", name, [HUBD, "connect", "--host", name]), "env": hub.env}
    argv = [str(python), str(HOSTS / f"{program}.py"), json.dumps(plan)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{name} failed:\n{done.stderr[-4000:]}\nhub:\n{hub.process.tail()}"
    printed = json.loads(done.stdout)
    return dict(zip(cases, printed["seen"], strict=True)), {name: printed["version"]}


@pytest.fixture(scope="module")
def reports(hub, records):
    """What all hosts saw, at the same time: by case, and the revisions by host."""
    seen, versions = {}, {}
    with ThreadPoolExecutor() as pool:
        for more_seen, more_versions in pool.map(
            lambda host: report(hub, records, *host), [(era, way) for era in ERAS for way in WAYS]
        ):
            seen |= more_seen
            versions |= more_versions
    return seen, versions


# --- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id="-".join(case), marks=pytest.mark.covers(*FLOWS[case.flow].covers)) for case in CASES],
)
def test_flow(case, reports):
    saw = reports[0][case]
    assert "error" not in saw, saw
    FLOWS[case.flow].check(case, saw)


def test_hosts_speak_the_revision_they_stand_for(reports):
    revisions = {"legacy": mcp.L4, "modern": mcp.MODERN}
    assert reports[1] == {f"{era}-{way}": revisions[era] for era in revisions for way in WAYS}


def test_all_that_the_hub_said_in_these_flows_is_valid(reports, hub, records):
    verdict = Verdict()
    for part, role in {"upstream": "client", "host": "server"}.items():
        for file in records.lines(part):
            read_lines(file, role, verdict)
        for name, relay in records.relays[part].items():
            HttpTraffic(role, verdict, name).read(list(relay.pieces))
    shown = "\n\n".join(verdict.invalid[:5])
    assert not verdict.invalid, f"{len(verdict.invalid)} invalid, {verdict.judged.total()} valid messages:\n{shown}"
    assert {("legacy", question) for question in mcp.QUESTIONS} <= verdict.questions
    assert ("modern", "subscriptions/listen") in verdict.questions
