"""`hubd status` as text. Pure."""

from collections.abc import Mapping, Sequence
from textwrap import TextWrapper
from typing import Any, Final

from hub.cli.render.cache import brief
from hub.cli.render.tables import Row, duration, size, table, times
from hub.wire.printable import printable


def status(data: Mapping[str, Any]) -> str:
    """`hubd status`: what is wrong with the configuration, then upstreams, attached hosts, projects, warnings."""
    upstreams, hosts, config = data.get("upstreams") or [], data.get("hosts") or [], data.get("config") or {}
    lines = [f"hubd {data.get('version', '?')}, up {duration(data.get('uptime_s') or 0)}"]
    if listen := data.get("listen"):
        lines.append(f"listens on {printable(str(listen.get('url')))} and {printable(str(listen.get('socket')))}")
    if buffer := data.get("buffer"):
        lines.append(_buffer(buffer))
    if data.get("root"):
        lines.append("RUNS AS ROOT, and so does every server it starts (see `hubd doctor`)")
    lines.append("")
    lines += _configuration(config)
    lines += _upstreams(upstreams) if upstreams else ["no upstreams"]
    lines.append("")
    host_heads = ("HOST", "TRANSPORT", "VERSION", "ENDPOINT", "ATTACHED", "IDLE", "RUNNING", "ASKED")
    lines += table(host_heads, [_host(host) for host in hosts]) if hosts else ["no hosts attached"]
    if projects := data.get("projects"):
        rows = [(project.get("root"), project.get("endpoint"), project.get("hosts")) for project in projects]
        lines += ["", *table(("PROJECT", "ENDPOINT", "HOSTS"), rows)]
    lines += _in_common(data)
    warnings = [str(warning) for warning in (*(config.get("warnings") or ()), *(data.get("warnings") or ()))]
    if faults := data.get("faults"):
        warnings.append(f"the hub itself failed at something {times(faults)}; its log says more")
    return "\n".join(lines + ([""] if warnings else []) + [f"warning: {printable(text)}" for text in warnings])


def _buffer(buffer: Mapping[str, Any]) -> str:
    """What is held for hosts and servers; whether somebody had to do without."""
    used, limit, highest = (size(buffer.get(member) or 0) for member in ("used", "limit", "highest"))
    text = f"holds {used} of {limit} for hosts and servers, {highest} at most so far"
    if refused := buffer.get("refused"):
        text += f"; had no room {times(refused)}"
    if evicted := buffer.get("evicted"):
        text += f"; {evicted} that {'was' if evicted == 1 else 'were'} late had to give way"
    return text


def _in_common(data: Mapping[str, Any]) -> list[str]:
    """A line each on what is kept, and on the other hubs."""
    lines = []
    if cache := data.get("cache"):
        lines.append(f"cache: {brief(cache)}")
    if replica := data.get("replica"):
        store = (data.get("cache") or {}).get("store") or {}
        lines.append(f"replica: {_replica(replica, store)}")
    return ["", *(printable(line) for line in lines)] if lines else []


def _replica(replica: Mapping[str, Any], store: Mapping[str, Any]) -> str:
    peers = [str(peer.get("name") or peer.get("run")) for peer in replica.get("peers") or ()]
    url = f" at {replica['url']}" if replica.get("url") else ", which others cannot reach"
    alone = "looking for other hubs" if replica.get("looking") else "no other hub is there"
    others = f"with {', '.join(sorted(peers))}" if peers else alone
    if replica.get("name") in peers:
        others += "; TWO HUBS HAVE THIS NAME (see `hubd doctor`)"
    if replica.get("registered") is False:
        state = store.get("state")
        others = f"OTHER HUBS CANNOT FIND IT NOW: the store is {'away' if state in (None, 'connected') else state}"
    return f"{replica.get('name') or replica.get('run')}{url}; {others}"


def _configuration(config: Mapping[str, Any]) -> list[str]:
    """What has to be done about it: first and loud, since nothing that is changed has any effect until then."""
    lines = []
    if problem := config.get("problem"):
        lines += ["THE CONFIGURATION IS NOT USED, THE ONE BEFORE STAYS:"]
        lines += [f"  {printable(line)}" for line in str(problem).splitlines()]
    if pending := config.get("pending"):
        lines += [f"settings that need a restart of the hub: {printable(', '.join(map(str, pending)))}"]
    return [*lines, ""] if lines else []


_HEADS: Final = ("UPSTREAM", "STATE", "FOR", "VERSION", "VIA", "SESSIONS", "TOOLS", "PROMPTS", "RESOURCES", "TMPL")
SAID_LINES: Final = 4
"""Of the last words of a process."""
NOTE_CHARS: Final = 100
"""How wide the lines below an upstream may be."""
_WRAPPER: Final = TextWrapper(
    NOTE_CHARS, initial_indent="    ", subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
)
"""Paths stay in one piece."""


def _upstreams(upstreams: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table in which what there is to say of an upstream stands below its row."""
    heads, *rows = table(_HEADS, [_upstream(upstream) for upstream in upstreams])
    lines = [heads]
    for row, upstream in zip(rows, upstreams, strict=True):
        lines.append(row)
        for note in _notes(upstream):
            lines += _WRAPPER.wrap(printable(note))
    return lines


def _upstream(upstream: Mapping[str, Any]) -> Row:
    counts = upstream.get("counts") or {}
    since_s = upstream.get("since_s")
    sessions, mode = upstream.get("sessions"), upstream.get("mode")
    shared = sessions if sessions is None or mode in (None, "", "shared") else f"{sessions} {mode}"
    named = [upstream.get(member) for member in ("name", "state", "version", "transport")]
    named.insert(2, None if since_s is None else duration(since_s))
    return (*named, shared, *(counts.get(kind) for kind in ("tools", "prompts", "resources", "templates")))


def _notes(upstream: Mapping[str, Any]) -> list[str]:
    """What is out of the ordinary, the worst first."""
    notes = []
    if upstream.get("crash_loop"):
        notes.append(f"crash loop: ended or failed to start {times(upstream.get('ends_lately') or 0)} within 5 min")
    if stale := upstream.get("stale_config"):
        notes.append(f"goes on with its old settings: {_first_line(stale)}")
    notes += _trouble(upstream)
    if (silent_s := upstream.get("silent_s")) is not None:
        notes.append(f"not answering pings for {duration(silent_s)}; calls are sent all the same")
    degraded = upstream.get("degraded") or ()
    notes += [f"degraded: {reason}" for reason in ([degraded] if isinstance(degraded, str) else degraded)]
    if restarts := upstream.get("restarts"):
        notes.append(f"restarted {times(restarts)}")
    if parked := upstream.get("parked"):
        notes.append(f"{parked} {'calls wait' if parked != 1 else 'call waits'} for answers of hosts")
    if refused := upstream.get("unattributed"):
        noun, whose = ("question", "it is") if refused == 1 else ("questions", "they are")
        notes.append(f"{refused} {noun} refused: nobody can tell which host {whose} for")
    return notes


def _trouble(upstream: Mapping[str, Any]) -> list[str]:
    """Why an upstream is away, or was, and what comes next; all of its last words are in `--json` and `hubd logs`."""
    state, ago_s = upstream.get("state"), upstream.get("last_error_ago_s")
    error, *said = str(upstream.get("last_error") or "").splitlines() or [""]
    if error and ago_s is not None:
        error += f" ({duration(ago_s)} ago)"
    if state == "connected":
        return [f"before: {error}"] if error else []
    notes = [error, *(f"| {line}" for line in said[-SAID_LINES:])] if error else []
    if (next_s := upstream.get("next_attempt_s")) is not None:
        failures = upstream.get("failures") or 0
        counted = f", after {failures} in a row that failed" if failures > 1 else ""
        notes.append(f"next attempt in {duration(next_s)}{counted}")
    elif state in ("failed", "unauthorized"):
        notes.append(f"tried again when a host needs it, or by `hubd restart {upstream.get('name')}`")
    elif state == "idle":
        notes.append("started by the first call that needs it")
    return notes


def _first_line(text: object) -> str:
    return str(text).partition("\n")[0]


def _host(host: Mapping[str, Any]) -> Row:
    label = host.get("label")
    name = host.get("host")
    shown = name if label in (None, "", name) else f"{name} ({label})"
    times = [duration(host.get(member) or 0) for member in ("attached_s", "idle_s")]
    counted = [host.get(member) for member in ("in_flight", "asked")]
    return (shown, host.get("transport"), host.get("version"), host.get("endpoint"), *times, *counted)
