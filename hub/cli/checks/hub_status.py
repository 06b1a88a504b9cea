"""Checks of the running hub by its status: version and address, and what it says of its servers, hosts and profiles."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from config.hosts.hub_entries import url_of
from config.hosts.removal_choice import SIGN_IN
from config.loading.checks.addresses import split_listen
from config.profile_settings import DEFAULT_PROFILE
from hub.cli.checks.findings import Finding, join_few
from hub.cli.checks.machine_state import MachineState
from hub.cli.render.costs import over_limit, remedy_of
from hub.control.sign_in_messages import SignInTrial
from hub.daemon.banner import ADVICE, ROOT
from upstreams.journal.error_line import telling_line

SYSTEMD: Final = Path("/run/systemd/system")
"""There where systemd is in charge (sd_booted(3))."""
SQUATTED = (
    "another user of this machine held that address when the hub started, and hosts with the usual URL show their "
    "token there; the token was replaced, and HTTP is closed to all hosts"
)
UNRESOLVED: Final = "not started"
UNSQUAT = (
    "find out who it is, or name another port with `listen` in hubd.toml; then run `hubd stop`, and `hubd install` "
    "for hosts that have the URL. On a machine with several users prefer `hubd connect`, which needs no token"
)


def daemon(examined: MachineState) -> Iterator[Finding]:
    """The running hub: its version, its address and settings that wait for a restart."""
    status = examined.status
    if examined.hangs:
        why = "no host gets an answer; its process is stopped, or the machine swaps"
        fix = "wait for it, or run `hubd stop --force`; the next host, or `hubd start`, starts another"
        yield Finding("daemon", "problem", examined.hangs.partition(". ")[0], why, fix)
        return
    if status is None:
        why = "hosts with `hubd connect` start it when they need it; hosts with a URL cannot reach it"
        keeps = "run `hubd service install` to keep one running" if SYSTEMD.exists() else "run `hubd start`"
        yield Finding("daemon", "note", "no hub is running", why, keeps)
        return
    if status.version != examined.version:
        what = f"the running hub is version {status.version}, this command is {examined.version}"
        fix = "run `hubd stop`; the next host, or the service manager, starts the new one"
        yield Finding("daemon", "warning", what, "it was not restarted after an update", fix)
    if (listen := status.listen) and listen.wanted:
        what = f"the hub listens on {listen.url} instead of {listen.wanted}"
        if listen.squatted:
            yield Finding("daemon", "problem", what, SQUATTED, UNSQUAT)
            return
        yield _elsewhere(what, listen.wanted, examined)
    if status.config.pending:
        what = f"the running hub does not use yet: {', '.join(status.config.pending)}"
        yield Finding("daemon", "warning", what, "these settings take effect when it starts", "run `hubd stop`")


def _elsewhere(what: str, wanted: str, examined: MachineState) -> Finding:
    """The hub could not have its address. Hosts that start `hubd connect`, or have the URL of now, do not need it."""
    why, fix = "that address was taken when it started", "stop what uses that port and run `hubd stop`; or name another"
    fix += " one with `listen` in hubd.toml"
    if any(f":{split_listen(wanted)[1]}/" in (url_of(file.entry) or "") for file in examined.files):
        return Finding("daemon", "warning", what, f"{why}; hosts with the usual URL cannot reach it", fix)
    why += "; no host of this machine has that URL. It keeps the port that it has now"
    return Finding("daemon", "note", what, why, f"nothing, unless a host is to have the usual URL: then {fix}")


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
    """The pipelines that no host is shown."""
    for warning in examined.seen.warnings:
        if warning.startswith("pipeline "):
            fix = "correct it, or add the server that has the tool (`hubd edit`)"
            yield Finding("pipelines", "warning", warning, "no host can call it", fix)


def rules(examined: MachineState) -> Iterator[Finding]:
    """The rules that deny, or ask about, no tool that there is."""
    for warning in examined.seen.idle_rules:
        yield Finding("rules", "warning", warning, "what was meant is perhaps allowed", "correct it (`hubd edit`)")


def root(examined: MachineState) -> Iterator[Finding]:
    """A hub that has, or would have, the rights of root."""
    what = ROOT if examined.seen.root else ""
    if examined.status is None and examined.root:
        what = "you are root, so a hub started here, and every server it starts, would run as root"
    if what:
        why = "a fault or an attack in any of them reaches the whole machine"
        yield Finding("root", "warning", what, why, ADVICE)


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
