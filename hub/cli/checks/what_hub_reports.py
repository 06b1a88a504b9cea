"""Checks of what the running hub says of its servers, hosts, profiles and rules."""

from collections.abc import Iterator, Mapping
from typing import Final

from config.hosts.removal_choice import SIGN_IN
from config.profile_settings import DEFAULT_PROFILE
from hub.cli.checks.findings import Finding, join_few
from hub.cli.checks.machine_state import MachineState
from hub.cli.render.costs import over_limit, remedy_of
from hub.control.sign_in_messages import SignInTrial
from hub.wire.vocabulary import HUB_TOOLS
from upstreams.journal.error_line import telling_line

UNRESOLVED: Final = "not started"


def limits(examined: MachineState) -> Iterator[Finding]:
    """Hosts that are shown more than they take."""
    texts = {text: remedy_of(host) for host in examined.seen.hosts if (text := over_limit(host))}
    if texts:
        why = "a host leaves out or refuses what it cannot take, and its model pays for every tool in every request"
        fix = f"see `hubd tools --cost`, then {' and '.join(dict.fromkeys(texts.values()))}"
        yield Finding("limits", "warning", "; ".join(texts), why, fix)


def search_mode(examined: MachineState) -> Iterator[Finding]:
    """Hosts that find tools by searching: since a profile says so, or since there are more than they take."""
    wanted = {row.name for row in examined.seen.profiles if row.search == "on"}
    reasons: dict[str, set[str]] = {}
    for host in examined.seen.hosts:
        if host.search:
            why = "there are more tools than such a host takes"
            if host.profile in wanted or (host.profile is None and DEFAULT_PROFILE in wanted):
                why = f"the profile {host.profile or DEFAULT_PROFILE} says so"
            reasons.setdefault(why, set()).add(host.label or host.host)
    for why, names in reasons.items():
        who = f"{', '.join(sorted(names))} {'finds' if len(names) == 1 else 'find'} tools by searching (search mode)"
        fix = 'nothing, if that is as you want it; search = "off" in the profile of a host shows it all tools'
        yield Finding("search", "note", who, why, fix)


def profiles(examined: MachineState) -> Iterator[Finding]:
    """The doubts about profiles, as the hub sees the tools of its servers."""
    for warning in dict.fromkeys(warning for row in examined.seen.profiles for warning in row.warnings):
        why = "its hosts are probably not shown what was meant"
        yield Finding("profile", "warning", warning, why, "correct it (`hubd edit`)")


def pipelines(examined: MachineState) -> Iterator[Finding]:
    """The pipelines that no host is shown, and those of which a step will probably fail."""
    for row in examined.seen.pipelines:
        name = f"pipeline {row.name.removeprefix(HUB_TOOLS)}"
        if row.problem:
            fix = "correct it, or add the server that has the tool (`hubd edit`)"
            yield Finding("pipelines", "warning", f"{name} is not shown: {row.problem}", "no host can call it", fix)
        for doubt in row.doubts:
            why = "the step will probably fail, after those before it were carried out"
            yield Finding("pipelines", "warning", f"{name}: {doubt}", why, "correct it (`hubd edit`)")


def rules(examined: MachineState) -> Iterator[Finding]:
    """The rules that deny, or ask about, no tool that there is."""
    for warning in examined.seen.idle_rules:
        yield Finding("rules", "warning", warning, "what was meant is perhaps allowed", "correct it (`hubd edit`)")


def upstreams(examined: MachineState) -> Iterator[Finding]:
    """Servers that the running hub cannot use, with the reason that it knows."""
    causes: dict[tuple[str, str], list[str]] = {}
    told = {each.unresolved for each in examined.error.diagnostics} if examined.error is not None else set()
    reasons: dict[str, str] = {}
    trials: Mapping[str, SignInTrial] | None = None
    for row in examined.seen.upstreams:
        name = row.name
        first, *said = (row.last_error or "").splitlines() or [""]
        why = first.strip() or "the reason is unknown"
        cause: tuple[str, str] | None = None
        if row.state == "unauthorized":
            command = "" if row.account is None else row.account.command
            trials = (examined.trials() if trials is None else trials) if command else {}
            if name in trials and trials[name].problem:
                yield _sign_in_problem(trials[name])
            else:
                cause = SIGN_IN, command and "by a person"
        elif row.state == "unresolved" and name not in told:  # which the configuration tells, with the same reason
            cause = UNRESOLVED, why.removeprefix(f"{name} is not started: ")
        elif row.state == "failed" or row.crash_loop:
            if (telling := telling_line(said)) and telling not in why:
                why += f'; it said "{telling}"'
            cause = "failed" if row.state == "failed" else "keeps exiting", why.removeprefix(f"{name} ")
        if cause is not None:
            causes.setdefault(cause, []).append(name)
        reasons[name] = why
    for (what, why), names in causes.items():
        yield _about_upstreams(names, what, why, reasons)


def _about_upstreams(names: list[str], what: str, why: str, reasons: Mapping[str, str]) -> Finding:
    one = names[0] if len(names) == 1 else ""
    name = one or "NAME"
    again = f"run `hubd restart {name}`"
    if what == SIGN_IN:
        fix = f"set headers.Authorization, or correct what stands below [upstreams.{name}.oauth] (`hubd edit`), then "
        fix = f"run `hubd auth {name}`" if why else fix + again
        why = reasons[one] if one else "they refuse the hub without credentials (HTTP 401)"
    elif what == UNRESOLVED:
        fix = f"do what it says; `hubd secret set` starts its servers, else {again}"
    else:
        why = reasons[one] if one else f"each {why}"
        fix = f"see `hubd logs {name}`, fix the cause, then {again}"
    return Finding("upstream", "problem", f"{join_few(names)}: {what}", why, fix, names=tuple(names))


def _sign_in_problem(trial: SignInTrial) -> Finding:
    name = trial.upstream
    what, fix = f"{SIGN_IN}, and it cannot begin", f"do what it says (`hubd edit`), then run `hubd auth {name}`"
    if trial.wants_token:
        what, fix = "token needed", f"run `hubd auth {name}`"
    elif trial.is_passing:
        fix = f"run `hubd auth {name}` when that is over"
    return Finding("upstream", "problem", f"{name}: {what}", trial.problem, fix, names=(name,))
