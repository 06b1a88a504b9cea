"""`hubd status` as text. Pure."""

from collections.abc import Sequence
from textwrap import TextWrapper
from typing import Final

from msgspec.structs import astuple

from cache.statistics import StoreStatistics
from hub.cli.render.cache import brief
from hub.cli.render.tables import Row, duration, size, table, times
from hub.control.answers import BufferStatus, ConfigStatus, HostRow, ReplicaStatus, Status, UpstreamRow
from hub.wire.printable import printable
from upstreams.status_facts import Counts


def status(data: Status) -> str:
    """`hubd status`: what is wrong with the configuration, then upstreams, attached hosts, projects, warnings."""
    lines = [f"hubd {data.version}, up {duration(data.uptime_s)}"]
    if data.listen:
        lines.append(f"listens on {printable(data.listen.url)} and {printable(data.listen.socket)}")
    if data.buffer:
        lines.append(_buffer(data.buffer))
    if data.root:
        lines.append("RUNS AS ROOT, and so does every server it starts (see `hubd doctor`)")
    lines.append("")
    lines += _configuration(data.config)
    lines += _upstreams(data.upstreams) if data.upstreams else ["no upstreams"]
    lines.append("")
    host_heads = ("HOST", "TRANSPORT", "VERSION", "ENDPOINT", "ATTACHED", "IDLE", "RUNNING", "QUESTIONS")
    lines += table(host_heads, [_host(host) for host in data.hosts]) if data.hosts else ["no hosts attached"]
    if data.projects:
        rows = [(project.root, project.endpoint, project.hosts) for project in data.projects]
        lines += ["", *table(("PROJECT", "ENDPOINT", "HOSTS"), rows)]
    lines += _in_common(data)
    warnings = [*data.config.warnings, *data.warnings]
    if data.faults:
        warnings.append(f"the hub itself failed {times(data.faults)}; see its log")
    return "\n".join(lines + ([""] if warnings else []) + [f"warning: {printable(text)}" for text in warnings])


def _buffer(buffer: BufferStatus) -> str:
    """The memory held for hosts and servers, and whether it was too little."""
    used, limit, highest = size(buffer.used), size(buffer.limit), size(buffer.highest)
    text = f"buffers hold {used} of {limit}, {highest} at most so far"
    if buffer.refused:
        text += f"; full {times(buffer.refused)}"
    if buffer.evicted:
        text += f"; {buffer.evicted} slow {'peer was' if buffer.evicted == 1 else 'peers were'} cut off"
    return text


def _in_common(data: Status) -> list[str]:
    """One line on the cache, one on the other hubs."""
    lines = []
    if data.cache:
        lines.append(f"cache: {brief(data.cache)}")
    if data.replica:
        store = data.cache.store if data.cache else None
        lines.append(f"replica: {_replica(data.replica, store)}")
    return ["", *(printable(line) for line in lines)] if lines else []


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


def _configuration(config: ConfigStatus) -> list[str]:
    """Problems of the configuration: first and loud, since until then no change has any effect."""
    lines = []
    if config.problem:
        lines += ["Configuration has errors; the previous one is still in use:"]
        lines += [f"  {printable(line)}" for line in config.problem.splitlines()]
    if config.pending:
        lines += [f"settings that need a restart of the hub: {printable(', '.join(config.pending))}"]
    return [*lines, ""] if lines else []


_HEADS: Final = ("UPSTREAM", "STATE", "AGE", "VERSION", "VIA", "SESSIONS", "TOOLS", "PROMPTS", "RESOURCES", "TMPL")
SAID_LINES: Final = 4
"""Lines shown of the last stderr of a process."""
NOTE_CHARS: Final = 100
"""Width of the lines below an upstream."""
_WRAPPER: Final = TextWrapper(
    NOTE_CHARS, initial_indent="    ", subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
)
"""Wraps notes, and keeps paths in one piece."""


def _upstreams(upstreams: Sequence[UpstreamRow]) -> list[str]:
    """The table of upstreams, with the notes of each below its row."""
    heads, *rows = table(_HEADS, [_upstream(upstream) for upstream in upstreams])
    lines = [heads]
    for row, upstream in zip(rows, upstreams, strict=True):
        lines.append(row)
        for note in _notes(upstream):
            lines += _WRAPPER.wrap(printable(note))
    return lines


def _upstream(upstream: UpstreamRow) -> Row:
    since = None if upstream.since_s is None else duration(upstream.since_s)
    sessions, mode = upstream.sessions, upstream.mode
    shared = sessions if sessions is None or mode in (None, "", "shared") else f"{sessions} {mode}"
    counts = [None] * len(Counts.__struct_fields__) if upstream.counts is None else astuple(upstream.counts)
    return (upstream.name, upstream.state, since, upstream.version, upstream.transport, shared, *counts)


def _notes(upstream: UpstreamRow) -> list[str]:
    """Notes on an upstream, the worst first."""
    notes = []
    if upstream.crash_loop:
        notes.append(f"crash loop: ended or failed to start {times(upstream.ends_lately or 0)} within 5 min")
    if upstream.stale_config:
        notes.append(f"still runs with its old settings: {upstream.stale_config.partition(chr(10))[0]}")
    notes += _trouble(upstream)
    if upstream.silent_s is not None:
        notes.append(f"not answering pings for {duration(upstream.silent_s)}; calls are still sent")
    notes += [f"degraded: {reason}" for reason in upstream.degraded or ()]
    if upstream.restarts:
        notes.append(f"restarted {times(upstream.restarts)}")
    if parked := upstream.parked:
        notes.append(f"{parked} {'calls wait' if parked != 1 else 'call waits'} for an answer of a host")
    if refused := upstream.unattributed:
        noun, whose = ("question", "it is") if refused == 1 else ("questions", "they are")
        notes.append(f"{refused} {noun} refused: nobody can tell which host {whose} for")
    return notes


def _trouble(upstream: UpstreamRow) -> list[str]:
    """The reason why an upstream is or was away, and the next attempt. The whole error
    is in `--json` and `hubd logs`."""
    state = upstream.state
    error, *said = (upstream.last_error or "").splitlines() or [""]
    if error and upstream.last_error_ago_s is not None:
        error += f" ({duration(upstream.last_error_ago_s)} ago)"
    if state == "connected":
        return [f"last error: {error}"] if error else []
    notes = [error, *(f"| {line}" for line in said[-SAID_LINES:])] if error else []
    if upstream.next_attempt_s is not None:
        failures = upstream.failures or 0
        counted = f", after {failures} failures in a row" if failures > 1 else ""
        notes.append(f"next attempt in {duration(upstream.next_attempt_s)}{counted}")
    elif state in ("failed", "unauthorized"):
        notes.append(f"retried on the next call; `hubd restart {upstream.name}` retries now")
    elif state == "idle":
        notes.append("started by the first call that needs it")
    return notes


def _host(host: HostRow) -> Row:
    shown = host.host if host.label in ("", host.host) else f"{host.host} ({host.label})"
    ages = duration(host.attached_s), duration(host.idle_s)
    return (shown, host.transport, host.version, host.endpoint, *ages, host.in_flight, host.asked)
