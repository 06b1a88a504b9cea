"""`hubd status` as blocks of a screen. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import astuple

from cache.statistics import StoreStatistics
from hub.cli.render.blocks import Block, Cell, Line, Table, paint
from hub.cli.render.cache import brief
from hub.cli.render.calls import totals
from hub.cli.render.costs import host_name, warning_of
from hub.cli.render.sign_ins import sign_in_notes
from hub.cli.render.words import about, count_of, duration, group, join_names, size, times
from hub.control.answers import BufferStatus, ConfigStatus, HostRow, ProjectRow, ReplicaStatus, Status, UpstreamRow
from upstreams.journal.error_line import error_line
from upstreams.journal.lacking_variable import hint_at_variable
from upstreams.status_facts import Counts

NOTABLE: Final = 0.05
"""The part of the memory for buffers below which it is not shown."""
NAMES_SHOWN: Final = 4
"""Names of servers in a line that says the same of several."""
QUIET_S: Final = 60.0
"""An HTTP host without a stream or a call for so long is counted only: nobody can tell whether it is still there."""


def status(data: Status) -> list[Block]:
    """`hubd status`: mistakes in the configuration, then servers, the broken ones first, hosts, projects, warnings."""
    blocks: list[Block] = [paint(f"hubd {data.version}", "bold") + f", up {duration(data.uptime_s)}"]
    if data.listen:
        blocks.append(f"listens on {data.listen.url} and {data.listen.socket}")
    if (buffer := data.buffer) and (
        buffer.refused or buffer.evicted or max(buffer.used, buffer.highest) > NOTABLE * buffer.limit
    ):
        blocks.append(_buffer(buffer))
    if data.root:
        blocks.append(paint("RUNS AS ROOT, and so does every server it starts (see `hubd doctor`)", "warning"))
    servers, hosts, projects = _upstreams(data.upstreams), _hosts(data.hosts), _projects(data.projects)
    for part in (show_configuration(data.config), servers, hosts, projects, _in_common(data), _warnings(data)):
        blocks += ["", *part] if part else []
    return blocks


def _buffer(buffer: BufferStatus) -> Line:
    used, limit, highest = size(buffer.used), size(buffer.limit), size(buffer.highest)
    text = f"buffers hold {used} of {limit}, {highest} at most so far"
    if buffer.refused:
        text += f"; full {times(buffer.refused)}"
    if buffer.evicted:
        text += f"; {buffer.evicted} slow {'peer was' if buffer.evicted == 1 else 'peers were'} cut off"
    return paint(text, "warning" if buffer.refused or buffer.evicted else "dim")


def _in_common(data: Status) -> list[Block]:
    lines: list[Block] = []
    boxes = ((row.sandbox.why, row.label or row.name) for row in data.upstreams if row.sandbox is not None)
    for why, names in group(box for box in boxes if box[0]).items():
        lines.append(paint(f"no sandbox: {join_names(names, most=NAMES_SHOWN)}, since {why}", "dim"))
    if data.calls and (said := totals(data.calls)):
        lines.append(said)
    if said := _decisions(data):
        lines.append(paint(said, "warning"))
    if data.cache:
        lines.append(f"cache: {brief(data.cache)}")
    if data.audit:
        lines.append(f"audit log: {data.audit.records} records, head {data.audit.head or '-'}")
    if data.replica:
        store = data.cache.store if data.cache else None
        lines.append(f"replica: {_replica(data.replica, store)}")
    return lines


def _decisions(data: Status) -> str:
    """The number of decisions that wait for a person, and what shows them; "": there are none."""
    parts = ("hubd approvals", data.requests), ("hubd pins", sum(row.changed > 0 for row in data.upstreams))
    number = sum(count for _, count in parts)
    where = ", ".join(command for command, count in parts if count)
    return f"{count_of(number, 'decision')} wait{'s' * (number == 1)}: {where}" if number else ""


def _replica(replica: ReplicaStatus, store: StoreStatistics | None) -> str:
    peers = [peer.name or peer.run for peer in replica.peers]
    url = f" at {replica.url}" if replica.url else ", which others cannot reach"
    alone = "looking for other hubs" if replica.looking else "no other hub found"
    others = f"with {', '.join(sorted(peers))}" if peers else alone
    if replica.name in peers:
        others += "; TWO HUBS HAVE THIS NAME (see `hubd doctor`)"
    if not replica.registered:
        state = "away" if store is None or store.state == "connected" else store.state
        others = f"OTHER HUBS CANNOT FIND IT NOW: the store is {state}"
    return f"{replica.name or replica.run}{url}; {others}"


def show_configuration(config: ConfigStatus) -> list[Block]:
    """Problems: first and loud, since until they are mended no change has any effect."""
    lines: list[Block] = []
    if config.problem:
        lines.append(paint("Configuration has errors; the previous one is still in use:", "bad"))
        lines += [f"  {line}" for line in config.problem.splitlines()]
    if config.pending:
        lines.append(f"settings that need a restart of the hub: {', '.join(config.pending)}")
    return lines


def _projects(projects: Sequence[ProjectRow]) -> list[Block]:
    rows = [(project.root, project.endpoint, project.hosts) for project in projects]
    return [Table(("PROJECT", "ENDPOINT", "HOSTS"), rows, shorten=("PROJECT",))] if rows else []


def _warnings(data: Status) -> list[Block]:
    texts = [*data.config.warnings, *data.idle_rules, *data.warnings]
    if warning := warning_of(data.hosts):
        texts.append(f"{warning}; `hubd tools --cost` shows what is large")
    if data.audit and (problem := data.audit.problem):
        texts.append(
            f"{problem}; {'calls that may change something are refused' if data.audit.required else 'calls go on'}"
        )
    if data.audit and data.audit.lost:
        texts.append(f"records of the audit log that are lost: {data.audit.lost}")
    if data.audit and data.audit.removed:
        texts.append("somebody has removed the audit log, or cut it; see `hubd audit verify`")
    if data.audit and data.audit.short:
        texts.append("the audit log is too small: records of the last days were removed; see `keep` of [audit]")
    if data.faults:
        texts.append(f"the hub itself failed {times(data.faults)}; see `hubd logs`")
    return [paint("warning: ", "warning") + text for text in texts]


# --- servers ----------------------------------------------------------------------------------------------------------

_HEADS: Final = (
    *("SERVER", "STATE", "AGE", "TRANSPORT", "VERSION", "SESSIONS", "SHARING"),
    *("TOOLS", "TOKENS", "PROMPTS", "RESOURCES", "TEMPLATES"),
)
_LEAST: Final = (
    *("VERSION", "TEMPLATES", "SESSIONS", "PROMPTS", "SHARING", "RESOURCES"),
    *("TRANSPORT", "AGE", "TOKENS", "TOOLS"),
)
"""Columns that may go, the least important first."""
NAME_CELLS: Final = 24
"""Names are not shortened below this for columns that may go."""
SAID_LINES: Final = 4
"""Lines shown of the last stderr of a process, if none of them names the error."""
NAMES: Final = {"unauthorized": "sign-in needed"}
"""Names of states on screens, where they are others than in JSON."""
_BROKEN: Final = frozenset({"failed", "unauthorized", "unresolved", "reconnecting"})
_STYLES: Final = {"connected": "good", "reconnecting": "warning", "connecting": "warning", "idle": "dim"}


def _upstreams(upstreams: Sequence[UpstreamRow]) -> list[Block]:
    """Servers with the notes of each below its row: the broken ones first, each group by name."""
    if not upstreams:
        return ["no servers; `hubd import` takes over those of your hosts, `hubd add` adds one"]
    found = sorted(upstreams, key=lambda each: (not _is_broken(each), each.name))
    rows, notes = [_upstream(each) for each in found], [_notes(each) for each in found]
    return [_count(found), "", Table(_HEADS, rows, shorten=("SERVER",), least=NAME_CELLS, drop=_LEAST, notes=notes)]


def _count(upstreams: Iterable[UpstreamRow]) -> str:
    states = Counter(map(_state, upstreams))
    counted = ", ".join(f"{number} {state}" for state, number in states.items())
    return f"{states.total()} {'server' if states.total() == 1 else 'servers'}: {counted}"


def _is_broken(upstream: UpstreamRow) -> bool:
    reasons = upstream.crash_loop, upstream.stale_config, upstream.degraded, upstream.slow, upstream.failing
    return upstream.state in _BROKEN or any(reasons)


def _state(upstream: UpstreamRow) -> str:
    return "installing" if upstream.installing else NAMES.get(upstream.state, upstream.state)


def _upstream(upstream: UpstreamRow) -> Sequence[Cell]:
    style = _STYLES.get(upstream.state, "bad" if _is_broken(upstream) else "dim")
    since = None if upstream.since_s is None else duration(upstream.since_s)
    counts = upstream.counts
    tools, *others = [None] * 4 if counts is None else astuple(counts)
    tokens = about(upstream.tokens) if tools and upstream.tokens is not None else None
    state = _state(upstream)
    if upstream.installing_s is not None:
        state += f" {duration(upstream.installing_s)}"
    if word := "failing" if upstream.failing else "slow" if upstream.slow else "":
        state, style = f"{state}, {word}", "warning"
    facts = upstream.transport, upstream.version, upstream.sessions, upstream.mode
    return paint(upstream.label or upstream.name, "name"), paint(state, style), since, *facts, tools, tokens, *others


def _notes(upstream: UpstreamRow) -> list[Line]:
    notes: list[Line] = []
    if upstream.serves:
        notes.append("serves where no profile, project or argument says another account")
    if upstream.crash_loop:
        often = times(upstream.ends_lately or 0)
        notes.append(paint(f"crash loop: ended or failed to start {often} within 5 min", "bad"))
    if upstream.stale_config:
        notes.append(f"still runs with its old settings: {upstream.stale_config.partition(chr(10))[0]}")
    notes += [*_trouble(upstream), *_sandbox(upstream), *sign_in_notes(upstream)]
    if upstream.silent_s is not None:
        notes.append(f"not answering pings for {duration(upstream.silent_s)}; calls are still sent")
    if upstream.queued:
        notes.append("other servers are being installed first")
    notes += [f"degraded: {reason}" for reason in upstream.degraded or ()]
    told = ("slow", upstream.slow), ("failing", upstream.failing)
    notes += [paint(f"{word}: {why}; see `hubd calls {upstream.name}`", "warning") for word, why in told if why]
    if upstream.restarts:
        notes.append(f"restarted {times(upstream.restarts)}")
    if limits := upstream.limits:
        notes.append(f"limited: {limits.running} running, {limits.waiting} waiting")
    notes += upstream.pins
    if parked := upstream.parked:
        notes.append(f"{parked} {'calls wait' if parked != 1 else 'call waits'} for an answer of a host")
    if refused := upstream.unattributed:
        noun, whose = ("question", "it is") if refused == 1 else ("questions", "they are")
        notes.append(f"{refused} {noun} refused: nobody can tell which host {whose} for")
    notes += [f"not checked: {reason}" for reason in upstream.unchecked[:NAMES_SHOWN]]
    if (more := len(upstream.unchecked) - NAMES_SHOWN) > 0:
        notes.append(f"not checked: {more} more tools")
    if refused := upstream.beyond_budget:
        notes.append(f"{refused} {'question' if refused == 1 else 'questions'} refused: beyond its budget")
    return notes


def _trouble(upstream: UpstreamRow) -> list[Line]:
    """The reason why a server is or was away, and the next attempt. The whole error is in `--json` and `hubd logs`."""
    state = upstream.state
    error, *said = (upstream.last_error or "").splitlines() or [""]
    if error and upstream.last_error_ago_s is not None:
        error += f" ({duration(upstream.last_error_ago_s)} ago)"
    if state == "connected":
        return [f"last error: {error}"] if error else []
    notes: list[Line] = [error, *_last_words(said)] if error else []
    if hint := hint_at_variable(upstream.last_error or "", upstream.name):
        notes.append(hint)
    if upstream.next_attempt_s is not None:
        failures = upstream.failures or 0
        counted = f", after {failures} failures in a row" if failures > 1 else ""
        notes.append(f"next attempt in {duration(upstream.next_attempt_s)}{counted}")
    elif state == "unauthorized" and upstream.account is not None and upstream.account.command:
        notes.append(f"sign in: {upstream.account.command}")
    elif state in ("failed", "unauthorized") or (state == "unresolved" and upstream.failures is not None):
        is_unknown = state == "failed" and not any(astuple(upstream.counts or Counts()))  # nobody can call what it has
        when = "every 5 min, and when its settings change" if is_unknown else "on the next call"
        notes.append(f"retried {when}; `hubd restart {upstream.label or upstream.name}` retries now")
    elif state == "idle":
        notes.append("started by the first call that needs it")
    return notes


def _sandbox(upstream: UpstreamRow) -> Iterator[Line]:
    """That it may have missed something in its sandbox, if it is not there now."""
    box = upstream.sandbox
    if box is not None and box.blamed and upstream.state != "connected":
        missed = f" and could not {box.wants} {box.path}" if box.path else ""
        yield f"sandboxed ({box.preset}){missed}; see `hubd doctor`"


def _last_words(said: Sequence[str]) -> list[Line]:
    """The line that names the error; if none does, the last ones."""
    at = error_line(said)
    return [paint(f"| {said[at].strip()}", "bad")] if at is not None else [f"| {line}" for line in said[-SAID_LINES:]]


# --- hosts ------------------------------------------------------------------------------------------------------------

_HOST_HEADS: Final = (
    *("HOST", "TRANSPORT", "VERSION", "ENDPOINT", "ATTACHED", "IDLE", "RUNNING", "QUESTIONS"),
    *("TOOLS", "TOKENS"),
)


def _hosts(hosts: Sequence[HostRow]) -> list[Block]:
    if not hosts:
        return ["no hosts attached"]
    quiet = [host for host in hosts if _is_quiet(host)]
    blocks: list[Block] = []
    if rows := sorted((_host(host) for host in hosts if not _is_quiet(host)), key=lambda row: str(row[0])):
        drop = ("VERSION", "ENDPOINT", "QUESTIONS", "TRANSPORT", "ATTACHED", "RUNNING", "IDLE", "TOOLS", "TOKENS")
        blocks.append(Table(_HOST_HEADS, rows, shorten=("HOST", "ENDPOINT"), least=NAME_CELLS, drop=drop))
    if searching := sorted({host_name(host) for host in hosts if host.search}):
        blocks.append(paint(f"search mode, where tools are found by searching: {', '.join(searching)}", "dim"))
    if quiet:
        names = Counter(host_name(host) for host in quiet)
        listed = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(names.items()))
        noun = "host" if len(quiet) == 1 else "hosts"
        blocks.append(paint(f"{len(quiet)} HTTP {noun} without a stream or a call for a minute: {listed}", "dim"))
    return blocks


def _is_quiet(host: HostRow) -> bool:
    used = host.listening or host.in_flight or host.asked
    return host.transport == "http" and not used and host.idle_s >= QUIET_S


def _host(host: HostRow) -> Sequence[Cell]:
    tokens = None if host.tokens is None else about(host.tokens)
    ages = duration(host.attached_s), duration(host.idle_s)
    facts = host.transport, host.version, host.endpoint
    return host_name(host), *facts, *ages, host.in_flight, host.asked, host.tools, tokens
