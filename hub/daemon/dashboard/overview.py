"""The hub at a glance as members by name, so that a page that is open is told of those alone that are not as they were.

They are those of `hub.control.overview_messages`, a server as `server/NAME`. Ages would change all the time, so there
are times of day in their place.
"""

from msgspec import structs

from hub.control.overview_messages import Overview, ServerRow
from hub.daemon.dashboard.messages import InboxList
from hub.telemetry.overview import draw


def list_members(overview: Overview, inbox: InboxList) -> dict[str, object]:
    """All members."""
    members = structs.asdict(overview)
    for name in ("at", "uptime_s", "servers", "seconds", "questions"):
        del members[name]
    seconds = overview.seconds
    members["seconds"] = [draw(each, round(seconds.end)) for each in (seconds.calls, seconds.failed)]
    members["started_at"] = round(overview.at - overview.uptime_s)
    members["inbox"] = inbox
    return members | {f"server/{row.name}": _describe(row, overview.at) for row in overview.servers}


def _describe(row: ServerRow, now: float) -> dict[str, object]:
    members = structs.asdict(row)
    since_s, last = members.pop("since_s"), row.last_error
    members["since"] = None if since_s is None else round(now - since_s)
    if last is not None:
        its = {"error_type": last.error_type, "name": last.name, "ref": last.ref, "at": round(now - last.ago_s)}
        members["last_error"] = its
    return members
