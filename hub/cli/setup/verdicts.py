"""Verdicts on servers of hosts: the hub takes one, or it stays with its host, and why. Nothing is changed here."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from config.hosts.host_servers import Server, Skipped
from config.hosts.import_plan import Import
from config.hosts.removal_choice import SIGN_IN, Served, Stays, sign_in_of
from hub.cli.await_server_starts import ServerOutcome
from hub.cli.hosts.who_runs_servers import reasons
from hub.control.answers import Status

Did = Literal["works", "in the hub", "sign-in needed", "does not work", "left"]


class ServerVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one server of one host."""

    host: str
    title: str
    """Of the host, for people."""
    key: str
    """The host's name for it."""
    did: Did
    """`works`: the hub takes it; `in the hub`: the hub has it already; all others stay with their host."""
    name: str = ""
    """The hub's name for it; "": it has none."""
    why: str = ""
    outcome: ServerOutcome | None = None
    """The outcome when it was tried."""

    @property
    def sign_in(self) -> str:
        """The commands by which the hub gets it and a person signs in there; "": that is not what it needs."""
        if not (self.did == "sign-in needed" and self.name and self.outcome is not None and self.outcome.sign_in):
            return ""
        return sign_in_of(self.host, self.key, self.name)

    @property
    def stays(self) -> bool:
        """True if its host keeps it."""
        return self.did not in ("works", "in the hub")

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        tried = self.outcome
        return {
            "host": self.host,
            "title": self.title,
            "server": self.key,
            "did": self.did,
            "name": self.name or None,
            **{name: tried and getattr(tried, name) for name in ("state", "tools", "tokens")},
            "why": self.why or None,
        }


def verdicts(
    result: Import, skipped: Collection[Skipped], ours: Collection[str], outcomes: Mapping[str, ServerOutcome]
) -> list[ServerVerdict]:
    """The verdict on each server, in the order of the hosts' files. `ours`: names of servers that the hub has already;
    `outcomes`: of those that were tried."""
    found = [_verdict(name, server, result, ours, outcomes) for name, server in result.all]
    found += [
        ServerVerdict(host=each.place.host.id, title=each.place.title, key=each.key, did="left", why=each.why)
        for each in (*result.skipped, *skipped)
    ]
    return found


def _verdict(
    name: str, server: Server, result: Import, ours: Collection[str], outcomes: Mapping[str, ServerOutcome]
) -> ServerVerdict:
    did: Did = "does not work"
    why, tried, place = server.off, outcomes.get(name), server.place
    if doubt := result.doubt(name, server):
        did, why = "left", doubt
    elif name in ours:
        did, why = "in the hub", result.about_tools(name, server)
    elif why:
        did = "left"
    elif tried is not None and tried.works:
        did, why = "works", result.about_tools(name, server)
    elif tried is not None:
        did = "sign-in needed" if tried.state == "unauthorized" else "does not work"
        why = tried.why or tried.summary
    return ServerVerdict(
        host=place.host.id, title=place.title, key=server.key, did=did, name=name, why=why, outcome=tried
    )


def keep_what_works(result: Import, ours: Collection[str], outcomes: Mapping[str, ServerOutcome]) -> None:
    """Leave in `result` only what the hub is to have: what works. What stays with its host is not in the hub, too."""
    works = {name for name, tried in outcomes.items() if tried.works}
    result.drop_where(lambda name, server: not (name in ours or (not server.off and name in works)))


def leave(result: Import, found: Sequence[ServerVerdict], why: Mapping[str, str]) -> list[ServerVerdict]:
    """Take servers out of `result` that do not work for these reasons, by the hub's names; the verdicts then."""
    result.drop_where(lambda name, _: name in why)
    return [structs.replace(it, did="does not work", why=why[it.name]) if it.name in why else it for it in found]


def rename(found: Sequence[ServerVerdict], result: Import) -> list[ServerVerdict]:
    """The verdicts, with the names under which the hub has the servers after some were merged."""
    names = {(server.place.host.id, server.place.title, server.key): name for name, server in result.known}
    return [structs.replace(each, name=names.get((each.host, each.title, each.key), each.name)) for each in found]


def as_left(found: Sequence[ServerVerdict], stays: Collection[Stays]) -> list[ServerVerdict]:
    """The verdicts, where these servers are left with their hosts after all."""
    why = {(each.place.title, each.key): each.why for each in stays}
    return [
        structs.replace(each, did="left", why=text) if (text := why.get((each.title, each.key))) else each
        for each in found
    ]


def why_not_served(found: Mapping[str, ServerOutcome], tried: Collection[str], status: Status) -> Served:
    """Of each server the reason why the hub does not serve it; "": it does. `found`: what became of them in the hub.
    One that waits for its first call is served if it is among `tried`, which worked just now, or worked within a day.
    """
    proven = reasons(found, status)

    def why(name: str, each: ServerOutcome) -> str:
        if each.state == "unauthorized":
            return SIGN_IN
        if not each.works:
            return each.why or each.summary
        return "" if each.state == "connected" or name in tried else proven[name]

    return {name: why(name, each) for name, each in found.items()}
