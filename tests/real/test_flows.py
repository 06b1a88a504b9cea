"""Every flow of the protocol, in all four pairs of eras, over stdio and HTTP on both sides, between real SDKs.

A host runs once per transport and walks all its flows with all upstreams; the tests look at its report. Beside that,
all messages of the hub are checked by the schemas.

A test is named by flow, pair (the host's era, then the upstream's: L legacy, M modern), the host's transport, the
upstream's transport, and the hub's own tool by which the host called, if it did not call by name.
"""

import contextlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from hub.wire import mcp
from tests.real.flow_list import FLOWS
from tests.real.recorded import OFFICIAL, SERVERS, Records, table
from tests.real.traffic import HttpTraffic, Verdict, read_lines
from tests.support.everything import parameters_of
from tests.support.processes import HUBD, PYTHON_1, PYTHON_2, free_port, running, running_hub
from tests.support.seeds import RUN_SEED

HOSTS = Path(__file__).parent / "hosts"
LIMIT_S = 240
WAYS = ("stdio", "http")
PYTHONS = {"L": (PYTHON_1, "flows1"), "M": (PYTHON_2, "flows2")}
CALL_TOOL = "hub__call_tool"
ERAS = {"L": "legacy", "M": "modern"}
MANY = {"apps": True, "elicitation": {"per_minute": 10_000}, "sampling": {"per_minute": 10_000}}
"""For servers that ask all the time."""


class Case(NamedTuple):
    """One flow, on one way through the hub."""

    flow: str
    pair: str
    host_way: str
    upstream_way: str
    via: str = ""
    """The hub's own tool by which the host calls all others; "": it calls them by their names."""

    @property
    def host(self):
        return f"{ERAS[self.pair[0]]}-{self.host_way}{'-found' if self.via else ''}"

    @property
    def upstream(self):
        """Its name. Processes that each host has for itself share no state, so flows that need it have a shared one."""
        if FLOWS[self.flow].npm:
            return "npm-http"
        name = {"L": "old", "M": "new"}[self.pair[1]] + ("-http" if self.upstream_way == "http" else "")
        if (name, self.flow) == ("new", "logging"):
            return "new-logs"
        return "old-shared" if name == "old" and FLOWS[self.flow].shared else name

    @property
    def scheme(self):
        return self.upstream.replace("-", "")


DRAWN_WAY = {era: Random(f"{RUN_SEED} {era}").choice(WAYS) for era in PYTHONS}
"""The transport of hosts of each era that the seed of the run draws."""
CASES = [
    Case(name, pair, host_way, upstream_way)
    for name, flow in FLOWS.items()
    for pair in flow.pairs
    for host_way in WAYS
    for upstream_way in (("http",) if flow.npm else WAYS)
]
CASES += [  # once more, each by one way
    case._replace(via=CALL_TOOL)
    for case in CASES
    if FLOWS[case.flow].calls and (FLOWS[case.flow].npm or case.host_way != case.upstream_way)
]
DRAWN = {case for case in CASES if not case.via and case.host_way == DRAWN_WAY[case.pair[0]]}
"""The cases of `make test`: each flow of each pair on two of its four ways, those of the drawn transports of hosts."""


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
        everything = OFFICIAL / "server-everything" / "dist" / "index.js"
        env = {**os.environ, "PORT": str(port := free_port())}
        npm = ["node", everything, "streamableHttp"]
        npm_server = stack.enter_context(running(npm, directory / "npm.log", env=env, merged=True))
        front = stack.enter_context(records.relay("host", "hub"))
        config = [f'allowed_hosts = ["{front.address}"]', "startup_grace_s = 60.0"]
        for name, scheme, entries in (
            # Each host its own process: only so it may learn of the host's roots.
            ("old", "old", {"session_mode": "per_host"}),
            ("old-shared", "oldshared", {"session_mode": "shared"}),
            ("new", "new", {"era": "modern"}),
            # Of its own, and of each host: beside the calls of others nobody can tell whose a log message is.
            ("new-logs", "newlogs", {"era": "modern", "session_mode": "per_host"}),
        ):
            command, *args = records.tee("upstream", name, [*programs[name[:3]], scheme])
            config.append(table(name, command=command, args=args, **{"era": "legacy", **entries}, **MANY))
        urls = {name: server.wait_for(r"http://\S+")[0] for name, server in servers.items()}
        npm_server.wait_for(f"port {port}")
        urls["npm-http"] = f"http://127.0.0.1:{port}/mcp"
        for name, url in urls.items():
            parts = urlsplit(url)
            relay = stack.enter_context(records.relay("upstream", name, parts.port))
            era = "modern" if name == "new-http" else "legacy"
            config.append(table(name, url=parts._replace(netloc=relay.address).geturl(), era=era, **MANY))
        started = stack.enter_context(running_hub(directory, "\n".join(config)))
        parts = urlsplit(started.url)
        front.port = parts.port
        yield started._replace(url=parts._replace(netloc=front.address).geturl())


def report(hub, records, chosen, era, way, via):
    """What a host of that era saw of the chosen cases over that transport, calling tools `via` another: by case, and
    the revision."""
    python, program = PYTHONS[era]
    cases = [case for case in chosen if (case.pair[0], case.host_way, case.via) == (era, way, via)]
    name = cases[0].host
    plan = {
        "name": name,
        "via": via,
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
def reports(hub, records, request):
    """What all hosts saw: by case, and the revisions by host."""
    seen, versions = {}, {}
    chosen = [each for each in parameters_of(request, "case") if isinstance(each, Case)] or sorted(DRAWN)
    with ThreadPoolExecutor() as pool:
        for via in sorted(
            {case.via for case in chosen}
        ):  # one after the other: modern hosts over HTTP with one token are one for the hub
            hosts = sorted({(case.pair[0], case.host_way, via) for case in chosen if case.via == via})
            for more_seen, more_versions in pool.map(lambda host: report(hub, records, chosen, *host), hosts):
                seen |= more_seen
                versions |= more_versions
    return seen, versions


# --- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id="-".join(filter(None, case)),
            marks=[pytest.mark.covers(*FLOWS[case.flow].covers), *(() if case in DRAWN else [pytest.mark.everything])],
        )
        for case in CASES
    ],
)
def test_flow(case, reports):
    saw = reports[0][case]
    assert "error" not in saw, saw
    FLOWS[case.flow].check(case, saw)


def test_hosts_speak_the_revision_they_stand_for(reports):
    revisions = {"legacy": mcp.L4, "modern": mcp.MODERN}
    assert reports[1] == {case.host: revisions[ERAS[case.pair[0]]] for case in reports[0]}


@pytest.mark.covers("F-I-02", "F-I-12", "G-2")
def test_a_modern_program_that_comes_back_within_a_minute_is_one_host_to_a_shared_server(tmp_path):
    cases = [Case(name, "ML", "http", "stdio") for name in 2 * ("logging", "elicitation_accept", "sampling")]
    server = {"command": str(PYTHON_1), "args": [str(SERVERS / "flows1_server.py"), "old"]}
    with running_hub(tmp_path, table("old", session_mode="shared", **server)) as hub:
        plan = {"name": "back", "via": "", "turns": str(tmp_path / "turns-"), "url": hub.url, "token": hub.token}
        plan["flows"] = [[case.flow, case.upstream, case.scheme] for case in cases]
        argv = [str(PYTHON_2), str(HOSTS / "flows2.py"), json.dumps(plan)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{done.stderr[-4000:]}\nhub:\n{hub.process.tail()}"
    printed = json.loads(done.stdout)
    assert printed["version"] == mcp.MODERN
    for case, saw in zip(cases, printed["seen"], strict=True):
        assert "error" not in saw, (case.flow, saw)
        FLOWS[case.flow].check(case, saw)


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
