"""Evidence for the choice of a profile: what is known of tools, hosts and profiles, by the running hub, its
configuration, and what earlier imports noted."""

from collections.abc import Mapping
from itertools import count
from types import MappingProxyType

from msgspec import Struct

from config.diagnostics import EditError
from config.hosts.known_hosts import all_hosts
from config.hosts.servers_hosts_had import HadBefore
from config.hub_paths import had_before_path
from config.loading.checks.profiles import OWN_LABEL
from config.name_globs import ALL, union
from config.profile_settings import DEFAULT_PROFILE, Profile
from hub.catalog.visible_names import name_id
from hub.cli.client.connection import session
from hub.cli.context import Context, UsageError, client, nearest
from hub.cli.profiles.suggest_profile import Limits
from hub.cli.profiles.tool_globs import Away, is_known, leaves_out_only
from hub.control.answers import Status, ToolUses, UpstreamRow
from hub.control.methods import STATUS, TOOL_USE


class Evidence(Struct, frozen=True):
    """All that a choice of tools goes by."""

    status: Status
    uses: ToolUses
    profiles: Mapping[str, Profile]
    """As they are configured."""
    warnings: tuple[str, ...] = ()
    """Of the configuration about profiles."""

    starts: Mapping[str, str] = MappingProxyType({})
    """By server, the beginning of the names of its tools; "": it has none."""

    def without_tools(self, profile: str) -> list[str]:
        """Servers without tools that the profile shows, or may show if it is new; they may have other things."""
        before = self.profiles.get(profile)
        servers = () if before is None else before.servers
        return [each.name for each in self._toolless() if not servers or each.name in servers]

    def _toolless(self) -> list[UpstreamRow]:
        having = {each.server for each in self.uses.tools}
        return [each for each in self.status.upstreams if each.name not in having and "@" not in each.name]

    def away(self, profile: str) -> tuple[Away, ...]:
        """Servers that are not connected, and globs of the profile that match no tool. Those whose future tools it
        shows are marked."""
        before = self.profiles.get(profile)
        is_open = self.is_open(profile)
        tools = () if before is None or is_open else before.tools
        shown = self.without_tools(profile) if is_open else ()
        found: dict[str, Away] = {}
        for row in self._toolless():
            start = self.starts.get(row.name, "")
            is_away = row.state != "connected" or row.settling
            if is_away and (is_open or start):  # in a list of names a server stands by the beginning of these
                each = Away(row.name, start, row.state, row.name in shown or f"{start}*" in tools)
                found[each.word] = each
        names = [each.name for each in self.uses.tools]
        for glob in tools:
            is_line = glob[:1] not in ("!", "#") and glob.split() == [glob]
            if is_line and glob not in found and not is_known(glob, names):
                found[glob] = Away("", glob, "", True)
        return tuple(found.values())

    def is_open(self, profile: str) -> bool:
        """True if the profile shows all tools of servers to come, but for some, or there is none yet."""
        before = self.profiles.get(profile)
        return before is None or before.tools == ALL or leaves_out_only(before.tools)

    def servers_still_starting(self, profile: str) -> dict[str, str]:
        """Absent servers whose future tools this profile shows, with their name prefixes."""
        found = self.away(profile) if self.is_open(profile) else ()
        return {each.server: each.start for each in found if each.is_shown}

    def limits(self, label: str) -> Limits:
        """The limits of a host."""
        known = all_hosts().get(label)
        return Limits() if known is None else Limits(known.tool_limit, known.spare_tokens)

    def profile_of(self, label: str) -> str:
        """The profile for the hosts of a label: the one that names it, else one of its own."""
        found = next((name for name, profile in self.profiles.items() if label in profile.hosts), None)
        return _free(_profile_name(label), self.profiles) if found is None else found

    def labels(self) -> list[str]:
        """Every label that a host has, or may have; not that of the hub's own commands."""
        attached = [each.label for each in self.status.hosts if each.label]
        called = [label for each in self.uses.tools for label in each.calls if label]
        named = [label for each in self.profiles.values() for label in each.hosts]
        found = dict.fromkeys([*attached, *named, *called, *all_hosts()])
        return [label for label in found if label != OWN_LABEL]

    def refuse_unknown(self, label: str) -> None:
        """Refuse a label that no host has. Raises: UsageError."""
        known = self.labels()
        if label in known:
            return
        if label == OWN_LABEL:
            raise UsageError(f"{label} is the label of the hub's own commands, which are shown everything")
        if label == DEFAULT_PROFILE:
            text = "default is no host, but the profile of all hosts that have no other"
            raise UsageError(f"{text}: `hubd tools --pick default` chooses for these")
        if (profile := self.profiles.get(label)) is not None:
            whose = f"that of {', '.join(profile.hosts)}" if profile.hosts else "that of no host"
            text = f"{label} is no host, but a profile, {whose}"
            raise UsageError(f"{text}: name a host, or choose with `hubd tools --pick {label}`")
        meant = nearest(label, known) or f"there are: {', '.join(known)}"
        raise UsageError(f"there is no host {label}; {meant}")


def gather_evidence(options: Context) -> Evidence:
    """The evidence; a hub is started if need be. Raises HubNotRunning, ControlFailed, NotUnderstood: the hub does not
    tell; ConfigError: the configuration cannot be used."""
    loaded = options.loaded
    warnings = tuple(str(each) for each in loaded.warnings if each.keys[:1] == ("profiles",))
    starts = {name: _start(name, upstream.prefix) for name, upstream in loaded.config.upstreams.items()}
    return Evidence(*status_and_uses(options), loaded.config.profiles, warnings, starts)


def status_and_uses(options: Context) -> "tuple[Status, ToolUses]":
    """The status of a hub that has listed its tools, which is started if need be, and the use of these."""
    with session(options) as hub:  # a hub that is only starting has them when it has listed them
        hub.items("tools/list", "tools")
    with client() as control:
        return control.request(STATUS), control.request(TOOL_USE)


def _start(name: str, prefix: str | None) -> str:
    return "" if prefix == "" else f"{name_id(prefix or name)}__"


def had_before(label: str) -> dict[str, tuple[str, ...]]:
    """The servers that the hosts of a label had themselves before an import, each with its choice of tools. Empty where
    nothing is noted."""
    found: dict[str, tuple[str, ...]] = {}
    try:
        records = HadBefore(had_before_path()).all()
    except EditError:  # it cannot be read, and only helps to suggest
        return found
    for each in (each for hosts in records.values() for each in hosts if each.host == label):
        for server, globs in each.tools.items():
            found[server] = union(found[server], globs) if server in found else globs
    return found


def _profile_name(label: str) -> str:
    """The name of a profile for the hosts of a label."""
    name = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in label.lower())
    return name.lstrip("._-")[:28] or "host"


def _free(name: str, taken: Mapping[str, Profile]) -> str:
    """`name`, or one like it that no profile has."""
    if name not in taken and name != DEFAULT_PROFILE:
        return name
    return next(other for number in count(2) if (other := f"{name}-{number}") not in taken)
