"""The servers that run: those of the user's configuration, and those of projects that hosts work in."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cache.resource_cache import ResourceCache
from config.diagnostics import Keys
from config.loading.checks.rules import is_ruled
from config.loading.precedence import Origin
from config.loading.split_accounts import split_accounts
from config.settings import HubConfig, UpstreamConfig
from hub.catalog.endpoint_views import home_of
from hub.catalog.visible_names import rule_of, rules_of
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.router import Router
from upstreams.supervisor import Supervisor

if TYPE_CHECKING:
    from hub.rules.policy.rule_book import RuleBook


@dataclass(eq=False, repr=False)
class RunningServers:
    """Starts and stops servers by configuration. Hosts and the cache are told of those that are gone for good."""

    config: HubConfig
    """The user's configuration."""
    _supervisor: Supervisor
    _live: LiveCatalog
    _lists: ListUpdates
    _router: Router
    _reads: ResourceCache
    _of_projects: dict[str, UpstreamConfig] = field(default_factory=dict)
    _origins: Mapping[Keys, Origin] = field(default_factory=dict)
    """Where settings of `config` stand, for people."""
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered around every change of the rules."""
    after_rules: Callable[[], None] = lambda: None
    """Called when rules may have changed."""

    def __post_init__(self) -> None:
        self._live.judge.adjust(self.read_rules(self.config, self._origins))
        self._router.adjust(self.configs, self.config.hooks)

    @property
    def configs(self) -> dict[str, UpstreamConfig]:
        """The configurations of all servers by name, also of those of projects and of disabled ones; of further
        accounts as well."""
        return split_accounts(self.config.upstreams | self._of_projects)

    async def prepare(self, config: HubConfig) -> None:
        """Read what `apply` needs to know."""
        await self._supervisor.prepare(split_accounts(config.upstreams | self._of_projects))

    def apply(
        self, config: HubConfig, left_out: Mapping[str, UpstreamConfig] = {}, origins: Mapping[Keys, Origin] = {}
    ) -> None:
        """Run the user's servers as `config` says, and disturb only those that differ; `left_out` cannot be run yet.
        `origins`: where settings stand."""
        old, new = self._live.servers.rules, rules_of(config, left_out)
        book = self._live.judge.book
        self.config, self._origins = config, origins
        self._live.apply(new)
        self._run()
        for name in {rule.name for rule in {*old.upstreams} ^ {*new.upstreams}}:
            self._live.changed(name)
        if self._live.dirty or old != new or self._live.judge.book is not book:
            self._lists.rebuild()

    async def run_projects(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Run these servers of projects and no others, and show hosts the difference."""
        self._of_projects = dict(configs)
        await self.prepare(self.config)
        differ = self._live.judge.book != self.read_rules(self.config, self._origins)
        with self.around() if differ else nullcontext():
            self._run()
            self._lists.rebuild()

    def read_rules(self, config: HubConfig, origins: Mapping[Keys, Origin]) -> "RuleBook | None":
        """The rules of a configuration, with those of projects; None: there are none."""
        configs = config.upstreams | self._of_projects
        if not is_ruled(config, configs):
            return None
        from hub.rules.policy.rule_book import read_rules  # not above: only rules need it

        return read_rules(config, configs, origins)

    def _run(self) -> None:
        before, configs = dict(self._supervisor.upstreams), self.configs
        self._supervisor.apply(configs, drain_s=self.config.drain_s)
        budget = self.config.name_budget
        for name in before.keys() - self._supervisor.upstreams.keys():
            self._reads.forget_upstream(name)
            if before[name].is_further_account:
                self._router.account_removed(name)
                continue
            _, home = home_of(name)
            self._router.removed(name, rule_of(name, before[name].config).sid(budget), home)
        self._live.judge.adjust(self.read_rules(self.config, self._origins))
        self._router.adjust(configs, self.config.hooks)
        self.after_rules()
