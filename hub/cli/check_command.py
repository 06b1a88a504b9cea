"""`hubd check`: before an unattended run, whether servers, tools and pipelines are as it needs them: connected, signed
in, there, allowed, unchanged; and whether the configuration is without mistakes. The hub reads its files first, as by
`hubd reload`. Nothing is called."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from config.server_names import ACCOUNT_MARK, RESERVED, server_of
from hub.cli.await_server_starts import ServerOutcome, watch
from hub.cli.context import EX_FAILED, Context, Output, UsageError, client, nearest
from hub.cli.parser import add
from hub.cli.render.words import count_of, duration, last_words
from hub.control.answers import PipelineRow, PolicyReport, PolicyRow, SignInFacts, ToolUse, UpstreamRow
from hub.control.client_errors import ControlFailed, HubNotRunning
from hub.control.methods import PINS, POLICY, RELOAD, STATUS, TOOL_USE
from hub.control.pin_messages import PinnedServer
from hub.wire.printable import printable
from hub.wire.vocabulary import HUB_TOOLS

ENDS_SOON_S: Final = 300.0
"""A sign-in that ends within this, and is not renewed without a person, will not do."""
FAILURES: Final = 1 << 30
"""A server that fails is waited for as long as was said: it may be about to be mended."""
_MEMBERS: Final = """\
  ok      whether all is well
  checks  of each server, tool and pipeline: name, kind, server, state, tools (there), expires_s (its sign-in; null: it
          has none, or is renewed without a person), effect (what the rules say of it), problems (in words)
  mistakes  in the configuration, in words"""


class Readiness(Struct, frozen=True, kw_only=True):
    """What was found of one server, tool or pipeline."""

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
    pipelines: Mapping[str, PipelineRow] = {}
    """By their visible names."""


def add_commands(commands: Any) -> None:
    """`check`."""
    check = add(commands, "check", _check, json=_MEMBERS)
    what = "a server, a pipeline, or a tool by its whole name; all servers and pipelines if none"
    check.add_value("names", "NAME", what, nargs="*")
    check.add_argument("--wait", metavar="SECONDS", type=float, default=0.0, help="for servers that are not connected")
    check.add_value("--host", "HOST", "what the rules say for hosts of this label; else for one without a label")
    check.epilog = f"Exits 1, with one line for each, if something is not as it should be.\n\n{check.epilog}"


def _check(options: Context, output: Output) -> None:
    if not 0 <= options.wait <= 86_400:
        raise UsageError("--wait takes seconds, a day at most")
    try:
        checks, mistakes = _find_all(options, output)
    except HubNotRunning:
        mistakes = _mistakes_in_files()
        if not mistakes:
            raise
        mistakes.append("the hub is not running, so no server or tool was looked at; start it with `hubd start`")
        checks = []
    problems = [*mistakes, *(f"{each.name}: {problem}" for each in checks for problem in each.problems)]
    output.set(ok=not problems, checks=[_as_object(each) for each in checks], mistakes=mistakes)
    for problem in problems:
        output.say(printable(problem))
    if problems:
        return output.exit_with(EX_FAILED)
    kinds = [count_of(sum(each.kind == kind for each in checks), kind) for kind in ("server", "tool", "pipeline")]
    output.say(f"all is well: {', '.join(kind for kind in kinds if not kind.startswith('0 '))}")


def _as_object(check: Readiness) -> dict[str, Any]:
    return {name: getattr(check, name) for name in check.__struct_fields__}


def _find_all(options: Context, output: Output) -> tuple[list[Readiness], list[str]]:
    """What was found of each name, in their order; and the mistakes in the configuration."""
    with client() as hub:
        with suppress(ControlFailed):  # it follows no files
            hub.request(RELOAD)  # a file may have been saved just now
        status = hub.request(STATUS)
        servers = {each.name: each for each in status.upstreams}
        pipelines = {each.name: each for each in status.pipelines}
        own = {name.removeprefix(HUB_TOOLS): name for name in pipelines}
        asked = [own[name] if name in own and name not in servers else name for name in options.names]
        asked = asked or [*(each.name for each in status.upstreams if each.state != "disabled"), *pipelines]
        names = list(dict.fromkeys(each for name in asked for each in _accounts_of(name, servers)))
        uses = {each.name: each for each in hub.request(TOOL_USE).tools}
        tools = [step.tool for name in names if name in pipelines for step in pipelines[name].steps]
        wanted = dict.fromkeys(_server_of(name, servers, uses) or name for name in (*names, *tools))
        outcomes = watch(
            hub, [each for each in wanted if each in servers], output, limit_s=options.wait, failures=FAILURES
        )
        policy, now = hub.request(POLICY, host=options.host or "", principal=""), hub.request(STATUS)
        found = ReadinessFacts(
            outcomes,
            {each.name: each for each in now.upstreams},
            {each.name: each for each in hub.request(TOOL_USE).tools},
            {each.name: each for each in hub.request(PINS, name=None)},
            policy,
            {row.name: row for row in policy.rows if row.kind == "tool"},
            {each.name: each for each in now.pipelines},
        )
    told = () if now.config.problems else now.config.warnings  # these are of the files before
    return [judge(name, found) for name in names], _mistakes(now.config.problems, told)


def _mistakes_in_files() -> list[str]:
    """The mistakes that keep a hub from starting, or from being what its files say."""
    from config.diagnostics import ConfigError  # only where no hub runs
    from config.loading.assemble import load_all

    try:
        loaded = load_all(None, os.environ, partly=True)
    except ConfigError as error:
        return _mistakes(list(map(str, error.diagnostics)) or [str(error)], map(str, error.warnings))
    return _mistakes((), map(str, loaded.warnings))


def _mistakes(problems: Iterable[str], warnings: Iterable[str]) -> list[str]:
    """Everything that the files say and no hub does: errors, what is ignored, and pipelines of unknown servers."""
    return [*problems, *(text for text in warnings if ": ignored" in text or ": pipelines" in text)]


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
    """What is to be said of a server, tool or pipeline."""
    if (pipeline := found.pipelines.get(name)) is not None:
        return _judge_pipeline(pipeline, found)
    server = _server_of(name, found.rows, found.tools)
    if not server:
        hint = nearest(name, [*found.rows, *found.tools, *found.pipelines])
        problem = f"there is no such server, tool or pipeline{f'; {hint}' if hint else ''}"
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


def _judge_pipeline(row: PipelineRow, found: ReadinessFacts) -> Readiness:
    """A pipeline is as ready as its steps are."""
    problems = [row.problem] if row.problem else []
    steps = [] if row.problem else [judge(step.tool, found) for step in row.steps]
    effect = found.effects[row.name].effect if row.name in found.effects else "allow"
    if effect not in {its.effect for its in steps}:  # else it is that of the step
        problems += _of_effect(effect)
    for at, (step, its) in enumerate(zip(row.steps, steps, strict=False)):
        where = f"step {at + 1} of {len(row.steps)} ({step.id}: {step.tool})"
        problems += [f"{where}: {problem}" for problem in its.problems]
    return Readiness(
        name=row.name,
        kind="pipeline",
        server=RESERVED,
        state="hidden" if row.problem else "shown",
        effect=effect,
        problems=(*problems, *row.doubts),
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
    else:
        yield from _of_effect(effect)


def _of_effect(effect: str | None) -> Iterator[str]:
    if effect == "ask":
        yield "a person is asked before it is called: `hubd policy explain` says why"
    elif effect in ("deny", "held back"):
        yield f"it may not be used ({effect}): `hubd policy explain` says why"
