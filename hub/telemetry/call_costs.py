"""What calls cost: by the prices of the configuration, and in tokens of results, for each host and server. Pure.

Prices are numbers in the currency of whoever wrote them; what was called before they changed is shown at those of now.
A call is charged unless it is certain that its server has not carried it out: not if it was refused, or answered with
an error of the protocol.
"""

from collections.abc import Mapping

from msgspec import Struct

from config.name_globs import matcher_of
from config.settings import UpstreamConfig
from hub.catalog.time_slices import Steps
from hub.catalog.token_cost import tokens_of
from hub.telemetry.operation_record import CHARGED, MAY_HAVE_RUN, Ended
from hub.telemetry.tally import Tally
from hub.wire.mcp import TOOLS_CALL

Key = tuple[str, str, str]
"""Of tallies: upstream, method, and the upstream's own name of a tool."""


class Cost(Struct, frozen=True):
    """What some operations cost."""

    charged: int = 0
    """Calls that are charged."""
    price: float = 0.0
    """Their prices together."""
    size: int = 0
    """Bytes of all results."""

    @property
    def tokens(self) -> int:
        """About how many tokens the results take in a model's context."""
        return tokens_of(self.size)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.charged + other.charged, self.price + other.price, self.size + other.size)


NO_COST = Cost()


def price_of(config: UpstreamConfig, tool: str) -> float:
    """The price of a call of a tool, by its server's own name of it: that of the first glob that means it, else that of
    the server."""
    return next((price for glob, price in config.prices.items() if matcher_of(glob)(tool)), config.price)


def price_of_key(key: Key, configs: Mapping[str, UpstreamConfig]) -> float:
    """The price of each operation that is counted under this key; 0: it is no call of a tool, or its server is gone."""
    upstream, method, tool = key
    config = configs.get(upstream)
    return 0.0 if config is None or method != TOOLS_CALL else price_of(config, tool)


def cost_of_one(ended: Ended, configs: Mapping[str, UpstreamConfig]) -> Cost:
    """The cost of one operation."""
    is_charged = ended.outcome in CHARGED or ended.executed in MAY_HAVE_RUN
    return Cost(int(is_charged), price_of_key(ended.key, configs) if is_charged else 0.0, ended.size)


def cost_by_host(key: Key, tally: Tally, configs: Mapping[str, UpstreamConfig]) -> dict[str, Cost]:
    """The cost of all operations that were counted under this key, by the label of the host."""
    price = price_of_key(key, configs)
    return {host: Cost(use.charged, use.charged * price, use.size) for host, use in tally.hosts.items()}


def sum_costs(
    tallies: Mapping[Key, Tally], configs: Mapping[str, UpstreamConfig]
) -> Steps[dict[tuple[str, str], Cost]]:
    """The costs of all that was counted, by the label of the host and the upstream."""
    found: dict[tuple[str, str], Cost] = {}
    for key, tally in list(tallies.items()):
        for host, cost in cost_by_host(key, tally, configs).items():
            found[host, key[0]] = found.get((host, key[0]), NO_COST) + cost
        yield max(1, len(tally.hosts))
    return found
