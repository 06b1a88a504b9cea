"""Checks of all settings of the hub itself: the entry to the checks below."""

from collections.abc import Iterator
from importlib.util import find_spec

from config.diagnostics import Problem, needs_extra
from config.loading.checks.cache_replica_and_keys import problems_of_sharing, warnings_of_sharing
from config.loading.checks.http_access import problems_of_access, warnings_of_access
from config.loading.checks.oauth import problems_of_oauth_in_hub
from config.loading.checks.profiles import problems_of_profiles
from config.loading.checks.registries import problems_of_registries
from config.loading.checks.rules import problems_of_hooks, problems_of_policy
from config.loading.parse_addresses import is_loopback, split_listen
from config.setting_declarations import problems_of_bounds
from config.settings import HubConfig


def problems_of_hub(config: HubConfig) -> Iterator[Problem]:
    """Problems of the hub's own settings."""
    try:
        host, _ = split_listen(config.listen)
    except Problem as problem:
        yield problem
    else:
        yield from problems_of_access(config, is_open=not is_loopback(host))
    yield from problems_of_bounds(config)
    yield from problems_of_oauth_in_hub(config.oauth)
    yield from problems_of_profiles(config.profiles, config.name_budget)
    if config.park_total_s < config.park_ttl_s:
        text = f"is less than one question may wait (park_ttl_s, {config.park_ttl_s:g}); raise it, or lower that"
        yield Problem("park_total_s", text)
    yield from problems_of_sharing(config)
    yield from problems_of_registries(config.registries)
    if config.pipelines:
        from config.loading.checks.pipelines import problems_of_pipelines  # not above: few hubs have one

        yield from problems_of_pipelines(config.pipelines)
    yield from problems_of_policy(config)
    yield from problems_of_hooks(config)


def warnings_of_hub(config: HubConfig) -> Iterator[Problem]:
    """Warnings about the hub's own settings."""
    yield from warnings_of_sharing(config)
    yield from warnings_of_access(config)
    if config.pipelines:
        from config.loading.checks.pipelines import warnings_of_pipelines

        yield from warnings_of_pipelines(config.pipelines)
    if config.tracing.enabled and not has_spans():
        yield Problem("tracing.enabled", f"{needs_extra('otel')}; nothing is traced without")


def has_spans() -> bool:
    """True if the extra is there that makes spans."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False
