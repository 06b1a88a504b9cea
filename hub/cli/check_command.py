"""`hubd check`: before an unattended run, whether servers and tools are as it needs them: connected, signed in, there,
allowed, unchanged. Nothing is called."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from config.server_names import ACCOUNT_MARK, server_of
from hub.cli.await_server_starts import ServerOutcome, watch
from hub.cli.context import EX_FAILED, Context, Output, UsageError, client, nearest
from hub.cli.parser import add
from hub.cli.render.words import count_of, duration, last_words
from hub.control.answers import PolicyReport, PolicyRow, SignInFacts, ToolUse, UpstreamRow
from hub.control.methods import PINS, POLICY, STATUS, TOOL_USE
from hub.control.pin_messages import PinnedServer
from hub.wire.printable import printable

ENDS_SOON_S: Final = 300.0
"""A sign-in that ends within this, and is not renewed without a person, will not do."""
FAILURES: Final = 1 << 30
"""A server that fails is waited for as long as was said: it may be about to be mended."""
_MEMBERS: Final = """\
  ok      whether all is well
  checks  of each server and tool: name, kind, server, state, tools (there), expires_s (its sign-in; null: it has none,
          or is renewed without a person), effect (what the rules say of a tool), problems (in words)"""


class Readiness(Struct, frozen=True, kw_only=True):
    """What was found of one server or tool."""

    name: str
    kind: str
    server: str
    state: str
    tools: int | None = None
    expires_s: float | None = None
    effect: str | None = None
    problems: tuple[str, ...] = ()


class ReadinessFacts(Struct, frozen=True):
    """What the hub says of everything that is checked."""

    outcomes: Mapping[str, ServerOutcome]
    rows: Mapping[str, UpstreamRow]
    tools: Mapping[str, ToolUse]
    """By their visible names."""
    pins: Mapping[str, PinnedServer]
    policy: PolicyReport
    effects: Mapping[str, PolicyRow]
    """By the visible names of tools."""


def add_commands(commands: Any) -> None:
    """`check`."""
    check = add(commands, "check", _check, json=_MEMBERS)
    check.add_value("names", "NAME", "a server, or a tool by its whole name; all servers if none", nargs="*")
    check.add_argument("--wait", metavar="SECONDS", type=float, default=0.0, help="for servers that are not connected")
    check.add_value("--host", "HOST", "what the rules say for hosts of this label; else for one without a label")
    check.epilog = f"Exits 1, with one line for each, if something is not as it should be.\n\n{check.epilog}"


def _check(options: Context, output: Output) -> None:
    if not 0 <= options.wait <= 86_400:
        raise UsageError("--wait takes seconds, a day at most")
    checks = _find_all(options, output)
    output.set(ok=not any(each.problems for each in checks), checks=[_as_object(each) for each in checks])
    for each in checks:
        for problem in each.problems:
            output.say(printable(f"{each.name}: {problem}"))
    if any(each.problems for each in checks):
        return output.exit_with(EX_FAILED)
    kinds = [count_of(sum(each.kind == kind for each in checks), kind) for kind in ("server", "tool")]
    output.say(f"all is well: {', '.join(kind for kind in kinds if not kind.startswith('0 '))}")


def _as_object(check: Readiness) -> dict[str, Any]:
    return {name: getattr(check, name) for name in check.__struct_fields__}


def _find_all(options: Context, output: Output) -> list[Readiness]:
    """What was found of each name, in their order."""
    with client() as hub:
        status = hub.request(STATUS)
        servers = {each.name: each for each in status.upstreams}
        asked = options.names or [each.name for each in status.upstreams if each.state != "disabled"]
        names = list(dict.fromkeys(each for name in asked for each in _accounts_of(name, servers)))
        uses = {each.name: each for each in hub.request(TOOL_USE).tools}
        wanted = dict.fromkeys(_server_of(name, servers, uses) or name for name in names)
        outcomes = watch(
            hub, [each for each in wanted if each in servers], output, limit_s=options.wait, failures=FAILURES
        )
        policy = hub.request(POLICY, host=options.host or "", principal="")
        found = ReadinessFacts(
            outcomes,
            {each.name: each for each in hub.request(STATUS).upstreams},
            {each.name: each for each in hub.request(TOOL_USE).tools},
            {each.name: each for each in hub.request(PINS, name=None)},
            policy,
            {row.name: row for row in policy.rows if row.kind == "tool"},
        )
    return [judge(name, found) for name in names]


def _accounts_of(name: str, servers: Mapping[str, UpstreamRow]) -> list[str]:
    """What runs by the name of a server, or of one of several accounts there; else the name of a tool, as it is."""
    labels = {row.label: row.name for row in servers.values()}
    if ACCOUNT_MARK in name or name not in servers:
        return [labels.get(name, name)]
    return [name, *(each for each in servers if server_of(each) == name != each)]


def _server_of(name: str, servers: Mapping[str, UpstreamRow], tools: Mapping[str, ToolUse]) -> str:
    """The server that a name means, or that has the tool of this name; "": none."""
    if name in servers:
        return name
    if name in tools:
        return tools[name].server
    begins = name.partition("__")[0]  # a server that is not connected yet, and has no prefix of its own choice
    return begins if begins in servers else ""


def judge(name: str, found: ReadinessFacts) -> Readiness:
    """What is to be said of a server or tool."""
    server = _server_of(name, found.rows, found.tools)
    if not server:
        hint = nearest(name, [*found.rows, *found.tools])
        problem = f"there is no such server or tool{f'; {hint}' if hint else ''}"
        return Readiness(name=name, kind="tool" if "__" in name else "server", server="", state="", problems=(problem,))
    row, tool = found.rows[server], found.tools.get(name)
    is_server = name == server
    outcome, account = found.outcomes.get(server), row.account
    effect = (
        found.effects[name].effect if name in found.effects else None if is_server or found.policy.ruled else "allow"
    )
    problems = [*_of_state(outcome, row), *_of_sign_in(account), *_of_pins(found.pins.get(server), tool, is_server)]
    if is_server:
        problems += _of_its_tools(server, found)
    elif outcome is not None and outcome.works:
        problems += _of_tool(tool, effect)
    return Readiness(
        name=(row.label or name) if is_server else name,
        kind="server" if is_server else "tool",
        server=server,
        state=row.state,
        tools=row.counts.tools if is_server and row.counts is not None else None,
        expires_s=None if account is None or account.renewable else account.expires_s,
        effect=effect,
        problems=tuple(problems),
    )


def _of_state(outcome: ServerOutcome | None, row: UpstreamRow) -> Iterator[str]:
    if outcome is not None and outcome.works:
        return
    is_said = outcome is not None and (outcome.why or outcome.sign_in)
    if row.last_error and not is_said:  # from before the wait
        yield f"{row.state}: {last_words(row.last_error)}"
    else:
        yield row.state if outcome is None else outcome.summary


def _of_sign_in(account: SignInFacts | None) -> Iterator[str]:
    if account is None or account.renewable or account.expires_s is None:
        return
    if account.expires_s < ENDS_SOON_S:
        todo = f"; sign in again: {account.command}" if account.command else ""
        yield f"its sign-in ends in {duration(max(0.0, account.expires_s))} and is not renewed without you{todo}"


def _of_pins(pinned: PinnedServer | None, tool: ToolUse | None, is_server: bool) -> Iterator[str]:
    """Differences from what was approved: of a tool only its own."""
    if pinned is None or pinned.pinning == "off":
        return
    if pinned.problem:
        yield f"nothing counts as approved: {pinned.problem}"
    items = [each.item for each in pinned.changes if is_server or (tool and each.item == f"tools/{tool.tool}")]
    if items:
        what = "its definition has" if not is_server else f"{count_of(len(items), 'definition')} of it"
        yield f"{what} changed since it was approved: `hubd pins {pinned.name}` shows how"


def _of_its_tools(server: str, found: ReadinessFacts) -> Iterator[str]:
    """A server is of no use if the rules allow none of what it has."""
    its: Sequence[str] = [row.effect for name, row in found.effects.items() if row.server == server]
    if found.policy.ruled and its and all(effect in ("deny", "held back") for effect in its):
        yield "no tool of it may be used: `hubd policy` says why"


def _of_tool(tool: ToolUse | None, effect: str | None) -> Iterator[str]:
    if tool is None and effect != "held back":
        yield "there is no such tool"
    elif effect == "ask":
        yield "a person is asked before it is called: `hubd policy explain` says why"
    elif effect in ("deny", "held back"):
        yield f"it may not be used ({effect}): `hubd policy explain` says why"
