"""The parts of a hub that pages of the dashboard show, and act on."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from hub.app import Hub
from hub.control.answers import ListenStatus
from hub.daemon.api import DaemonApi
from hub.daemon.decision_requests import DecisionRequests
from hub.daemon.live.calls_and_overview import LiveRequests
from hub.daemon.reload import Reloader
from hub.daemon.sign_in_requests import SignInRequests
from hub.net.http_request import EarlyReply, HttpRequest


class Parts(Struct, frozen=True):
    """Those of one hub."""

    hub: Hub
    api: DaemonApi
    live: LiveRequests
    decisions: DecisionRequests
    sign_ins: SignInRequests
    reloader: Reloader
    listening: Callable[[], ListenStatus]
    note_refusal: Callable[[HttpRequest, EarlyReply], None]
    """Has the audit log say who was not let in."""
    trust: Path
    """The file of the projects that the user allows."""
