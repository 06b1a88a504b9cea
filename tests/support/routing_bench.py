"""A router over one upstream that answers as told; hosts are `FakeHost`s."""

from msgspec import Raw

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.bridge.era_bridge import EraBridge
from hub.bridge.parking.parking import ParkedCalls
from hub.bridge.pending_url_elicitations import PageVisits
from hub.bridge.sealed_request_state import RequestStates
from hub.bridge.tasks.task_bridge import Tasks
from hub.calls.host_exchange import ProgressUpkeep
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.sealing import Sealer
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.router import Router
from hub.routing.subscription_requests import Subscriptions
from hub.routing.tool_usage import ToolUsage
from hub.routing.view_catalogs import ShownServers
from hub.wire.jsonrpc import Request, Result, raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from tests.support.fakes import FakeHost


class Files:
    """An upstream: keeps what it is asked, answers as told."""

    name = "files"
    config = UpstreamConfig(command="files")

    def __init__(self, *tools):
        entries = tuple(
            ListEntry(tool, {"name": raw(tool), "inputSchema": Raw(b'{"type":"object"}')}) for tool in tools
        )
        lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries}
        fresh = dict.fromkeys(Kind, Freshness())
        self.snapshot = Snapshot("files", L4, {"tools": Raw(b"{}")}, {}, "Be brief.", lists, fresh, True)
        self.calls = []
        self.stale = []
        self.refreshed = []
        self.answer = Result(Raw(b'{"content":[]}'))

    def version_for(self, caller):
        return self.snapshot.version

    async def call(self, operation, exchange):
        self.calls.append(operation)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    settling, has_reported, knows_tools = False, True, True
    is_further_account = False

    def ttl_ms(self, kind):
        return 60_000

    def refresh_if_expired(self, kind):
        return None

    def retry_if_due(self):
        pass

    def mark_stale(self, kinds):
        self.stale.append(kinds)

    async def refresh(self, kind):
        self.refreshed.append((self.name, kind))


class Bench:
    """A router over one upstream."""

    def __init__(self, *tools, settled=True, reading=None):
        self.files = Files(*tools)
        self.applied = []
        levels = LogLevels(list, self.applied.append)
        states = RequestStates(Sealer(b"k" * 32), wall=lambda: 0.0)
        rules = Rules((UpstreamRule("files"),))
        self.live = LiveCatalog(
            ShownServers({"files": self.files}, rules, UriClaims(), Sealer(b"k" * 32), lambda: None)
        )
        tasks = Tasks(states, {"files": self.files}, ttl_s=900, shows=self.live.shows_tool)
        bridge = EraBridge(states, ParkedCalls(states, ttl_s=900, total_s=7200), tasks, PageVisits())
        subscriptions = Subscriptions(self.live)
        self.usage = ToolUsage(Memory(None), lambda: 0.0)
        self.router = Router(
            self.live, ListUpdates(self.live, ()), subscriptions, levels, bridge, ProgressUpkeep(0), self.usage, reading
        )
        self.live.servers.claims_for_good = True
        self.live.rebuild()
        if settled:
            self.live.settled.set()

    async def ask(self, method, host=None, **params):
        request = Request(1, method, {name: raw(value) for name, value in params.items()})
        return await self.router.dispatch(request, host or FakeHost())
