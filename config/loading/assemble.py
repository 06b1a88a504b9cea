"""The configuration that all files of one hub make, and the origin of each value: checked as a whole, or refused.

`gather` has found the files, `stacks` says which entries of a name count, and here they become one `HubConfig`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from config.diagnostics import ConfigError, Diagnostic, Findings, Keys, Problem
from config.loading.checks.hub import problems_of_hub, warnings_of_hub
from config.loading.checks.oauth import problems_of_oauth_in_fleet
from config.loading.checks.profiles import warnings_of_profiles
from config.loading.checks.rules import warnings_of_policy
from config.loading.checks.server_and_tool_names import problems_of_names, warnings_of_names
from config.loading.checks.upstream import problems_of_upstream, warnings_of_upstream
from config.loading.convert_to_structs import UPSTREAM, convert, convert_known, nearest
from config.loading.gather import ConfigFiles, Gathered, gather
from config.loading.precedence import Origin, Stack, makes_sense, stacks
from config.loading.resolve_values import resolve_settings, resolve_table
from config.loading.split_accounts import problems_of_chosen_accounts
from config.secrets.fill_secret_values import with_given
from config.setting_declarations import declarations, reveal
from config.settings import HubConfig, ServerSettings, UpstreamConfig


class Loaded(ConfigFiles, frozen=True, kw_only=True):
    """A configuration that was checked as a whole, and its files."""

    config: HubConfig
    origins: Mapping[Keys, Origin] = {}
    """By keys such as ("listen",), ("upstreams", "a"), ("upstreams", "a", "env", "TOKEN"); defaults have none."""
    warnings: tuple[Diagnostic, ...] = ()
    """Warnings about what works, probably not as meant; each names file, line and key."""
    sources: tuple[Path, ...] = ()
    """The files that were there; empty if nothing is configured."""
    unresolved: tuple[Diagnostic, ...] = ()
    """The references that lead nowhere, for which upstreams that the files name are not in `config`."""
    left_out: Mapping[str, UpstreamConfig] = {}
    """Upstreams that are not in `config` for that, as far as the files say what they are."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings, and the upstreams that are left out, as sentences."""
        waits = "is not started until its references can be resolved"
        return (*map(str, self.warnings), *(f"{each.unresolved} {waits}: {each}" for each in self.unresolved))

    def error(self, problems: Sequence[Diagnostic]) -> ConfigError:
        """The error that this cannot be used because of `problems`."""
        error = ConfigError.of(problems)
        error.files, error.directories, error.warnings = self.files, self.directories, self.warnings
        return error


def load_all(
    named: Path | None, environ: Mapping[str, str], *, texts: Mapping[Path, str] = {}, partly: bool = False
) -> Loaded:
    """Read the file that was named, or the user's own `hubd.toml`, and everything that belongs to it (see `gather`).

    Blocks, so call it in a thread where that matters. `texts` stand in for what those files hold (see `draft`).
    `partly`: an upstream with references to what is not there is left out, and is no reason to raise.
    Raises: ConfigError, with all problems, each with file, line and key, and what to write instead."""
    return load_gathered(gather(named, environ, texts), partly=partly)


def load_or_defaults(named: Path | None, environ: Mapping[str, str]) -> HubConfig:
    """The configuration as far as it can be used, for what goes on without it: the defaults, if nothing can."""
    with suppress(ConfigError):
        return load_all(named, environ, partly=True).config
    return HubConfig()


def load_gathered(gathered: Gathered, *, partly: bool = False) -> Loaded:
    """The configuration that the files make. Raises: ConfigError, as `load_all`."""
    config, origins = assemble(gathered)
    sources = gathered.sources
    findings = (gathered.findings, *(source.findings for source in sources))
    problems = [*_once(problem for each in findings for problem in each.problems)]
    facts = {name: getattr(gathered, name) for name in ConfigFiles.__struct_fields__}
    facts["files"] = tuple(dict.fromkeys((*gathered.files, *(each for its in sources for each in its.variables.files))))
    unresolved = tuple(problem for problem in problems if problem.unresolved)
    without = {problem.unresolved for problem in unresolved}
    upstreams = {name: upstream for name, upstream in config.upstreams.items() if name not in without}
    found = Loaded(
        config=msgspec.structs.replace(config, upstreams=upstreams),
        origins=origins,
        warnings=tuple(warning for source in sources for warning in source.findings.warnings),
        sources=tuple(source.path for source in sources),
        unresolved=unresolved,
        left_out={name: config.upstreams.get(name, UpstreamConfig()) for name in without},
        **facts,
    )
    if len(problems) > (len(unresolved) if partly else 0):
        raise found.error(problems)
    return found


def _once(problems: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The problems, those of `[defaults]` once, though each server tells them."""
    told: set[Diagnostic] = set()
    for problem in problems:
        if problem not in told:
            yield problem
        if problem.keys[:1] == ("defaults",):
            told.add(problem)


def assemble(gathered: Gathered) -> tuple[HubConfig, dict[Keys, Origin]]:
    """The configuration that the files make, and where each value comes from. What is wrong is among their findings."""
    config = HubConfig()
    origins: dict[Keys, Origin] = {}
    main = gathered.main
    if main is not None:
        values, config = convert_known(resolve_settings(main), HubConfig, main.findings, tuple)
        config = msgspec.structs.replace(config, profiles=with_given(config.profiles, main.given, main.unread))
        for problem in problems_of_hub(config):
            main.findings.wrong(problem.keys, str(problem))
        for warning in () if main.findings.problems else warnings_of_hub(config):
            main.findings.warn(warning.keys, str(warning))
        origins = {keys: Origin(main.path, main.findings.line(keys), main.layer) for keys in _keys(values)}
    found = stacks(gathered.sources)
    upstreams = {name: upstream_of(stack) for name, stack in found.items()}
    if config.serves_several:
        upstreams = {name: without_sampling(upstream) for name, upstream in upstreams.items()}
    check_names(found, upstreams, config.name_budget)
    for name, problem in problems_of_oauth_in_fleet(config.replica, upstreams):
        found[name].wrong(problem.keys, str(problem))
    for name, stack in found.items():
        origins |= origins_of(name, stack)
    if main is not None:
        for problem in problems_of_chosen_accounts(config.profiles, upstreams):
            main.findings.wrong(problem.keys, str(problem))
        warnings = [*warnings_of_profiles(config.profiles, upstreams), *warnings_of_policy(config, upstreams)]
        if config.pipelines and not main.findings.problems:
            from config.loading.checks.pipelines import warnings_of_steps  # not above: few hubs have one

            warnings += warnings_of_steps(config.pipelines, upstreams)
        for warning in warnings:
            main.findings.warn(warning.keys, str(warning))
        if not upstreams and not main.findings.problems:
            main.findings.warn((), "names no upstreams; add [upstreams.NAME] with `command` or `url`")
    return msgspec.structs.replace(config, upstreams=upstreams), origins


def for_several(config: HubConfig) -> HubConfig:
    """The configuration of a hub that lets in others than its owner by what no file says."""
    policy = msgspec.structs.replace(config.policy, default=config.policy.default or "deny")
    upstreams = {name: without_sampling(upstream) for name, upstream in config.upstreams.items()}
    return msgspec.structs.replace(config, policy=policy, upstreams=upstreams)


def without_sampling(upstream: UpstreamConfig) -> UpstreamConfig:
    """An upstream that may not sample unless its configuration says so: it would spend what is another's."""
    if upstream.sampling.allow is not None:
        return upstream
    return msgspec.structs.replace(upstream, sampling=msgspec.structs.replace(upstream.sampling, allow=False))


def _keys(values: Mapping[str, Any], above: Keys = ()) -> Iterator[Keys]:
    """The keys of settings, and those of tables among them."""
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _keys(value, (*above, key))
        elif isinstance(value, list):
            for number, row in enumerate(value):
                yield from _keys(row, (*above, key, str(number))) if isinstance(row, dict) else ()


def upstream_of(
    stack: Stack, below: UpstreamConfig | None = None, defaults: ServerSettings | None = None
) -> UpstreamConfig:
    """The upstream that a stack describes; its problems are among the findings.

    `below` stands in a layer that was converted before; it counts if no entry of the stack defines the upstream.
    `defaults` are those of a file that is not in the stack; they count if one does.
    """
    is_disabled = stack.value("disabled") is True
    merged: dict[str, Any] = {}
    for entry in reversed(stack.used):
        values = resolve_table(entry.source, entry.table, is_disabled=is_disabled)
        values, upstream = convert_known(values, UpstreamConfig, entry.source.findings, entry.table.place)
        merged = _merge(merged, values)
    lowest = _plain_defaults(stack, defaults, is_disabled=is_disabled)
    if below is not None and not stack.defines():
        for key in sorted(_OWNERS & merged.keys()):
            text = "is for your own configuration to say of your server: a project can add `deny` and `ask`, and narrow"
            stack.wrong((key,), f"{text} `tools`")
        merged = _merge(msgspec.to_builtins(below, enc_hook=reveal), merged)
    else:
        merged = _on_defaults(lowest, merged)
    if len(stack.used) > 1 or below is not None or lowest:
        upstream = convert(merged, UpstreamConfig)
    mistaken = None if upstream.command or upstream.url else _mistaken(stack)
    for problem in problems_of_upstream(upstream):
        if stack.is_unresolved(problem.keys):
            continue  # the value is not known yet
        if mistaken and not problem.keys:
            problem = Problem((mistaken[0],), f'{problem}; is this meant to be "{mistaken[1]}"?')
        stack.wrong(problem.keys, str(problem))
    for warning in warnings_of_upstream(upstream):
        stack.warn(warning.keys, str(warning))
    return upstream


def _plain_defaults(stack: Stack, defaults: ServerSettings | None, *, is_disabled: bool) -> dict[str, Any]:
    """The values of `[defaults]` for the server of a stack. What is wrong with them was told of the whole table, but
    not what cannot be resolved: only servers that need it lack it."""
    if (entry := stack.defaults) is not None:
        values = resolve_table(entry.source, entry.table, is_disabled=is_disabled)
        return convert_known(values, ServerSettings, Findings(entry.source.path), entry.table.place)[0]
    if defaults is None or defaults == ServerSettings():
        return {}
    plain: dict[str, Any] = msgspec.to_builtins(defaults, enc_hook=reveal)
    is_url = "command" not in stack.used[-1].table.values
    return {key: value for key, value in plain.items() if makes_sense(key, value, is_url=is_url)}


_OWNERS: Final = frozenset(name for name, each in declarations(UpstreamConfig).items() if each.setting.owner)
"""The settings by which a project would widen what a server of the user may do or hide."""


def _mistaken(stack: Stack) -> tuple[str, str] | None:
    """An unknown setting that may be meant as `command` or `url`, and as which."""
    unknown = (key for entry in stack.used for key in entry.table.values if key not in UPSTREAM)
    found = ((key, nearest(key, UpstreamConfig)) for key in unknown)
    return next(((key, near[0]) for key, near in found if near and near[0] in ("command", "url")), None)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both; where both say something `above` wins, in tables key by key."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = {**below[key], **above[key]}
    return merged


def _on_defaults(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A server's own values on those of `[defaults]`; of some settings both count."""
    merged = _merge(defaults, own)
    for key, declared in declarations(ServerSettings).items():
        if declared.setting.adds and key in defaults and key in own:
            merged[key] = [*defaults[key], *own[key]]
    return merged


def check_names(found: Mapping[str, Stack], upstreams: Mapping[str, UpstreamConfig], budget: int) -> None:
    """Add problems and warnings about names among all upstreams to the findings of those in `found`. Visible names have
    `budget` characters."""
    for name, problem in problems_of_names(upstreams, budget):
        if name in found:
            found[name].wrong(problem.keys, str(problem), unresolved=problem.unresolved)
    for name, problem in warnings_of_names(upstreams):
        if name in found:
            found[name].warn(problem.keys, str(problem))


def origins_of(name: str, stack: Stack) -> Iterator[tuple[Keys, Origin]]:
    """The origins of the upstream and of each of its settings, tables key by key."""
    yield ("upstreams", name), stack.used[-1].origin(())
    for entry in reversed(stack.saying):  # the later wins
        for setting, value in entry.table.values.items():
            yield ("upstreams", name, setting), entry.origin((setting,))
            if isinstance(value, dict):
                for key in value:
                    yield ("upstreams", name, setting, key), entry.origin((setting, key))
