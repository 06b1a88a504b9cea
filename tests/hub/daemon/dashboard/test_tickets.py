"""PageTickets and keys by the clock, and over restarts of the hub."""

import pytest
import trio

from hub.daemon.dashboard.tickets import LABEL, MAX_TICKETS, PageTickets
from hub.link.sealing import Sealer


class Desk:
    """PageTickets of a hub that may be started again."""

    def __init__(self, path):
        self.path = path
        self.day = 1e9
        self.restart()

    def restart(self, key=b"k" * 32):
        self.tickets = PageTickets(Sealer(key), self.path, lambda: self.day)

    def sign_in(self, *, is_printed=False):
        return self.tickets.redeem(self.tickets.issue(is_printed=is_printed)[0])


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "dashboard")


@pytest.mark.covers("OD-2")
async def test_a_ticket_is_good_once_and_for_a_minute(desk, mock_clock):
    text, ticket = desk.tickets.issue(is_printed=False)
    assert LABEL.fullmatch(ticket.host)
    assert len(text) == 43
    mock_clock.jump(59.9)
    assert desk.tickets.find(text) == ticket
    mock_clock.jump(0.2)
    assert desk.tickets.find(text) is None
    assert desk.tickets.redeem(text) is None
    other, again = desk.tickets.issue(is_printed=False)
    assert again.host != ticket.host, "each has a name of its own, where nothing was left by others"
    assert desk.tickets.redeem(other) is not None
    assert desk.tickets.redeem(other) is None


async def test_of_many_tickets_the_last_count(desk):
    issued = [desk.tickets.issue(is_printed=False)[0] for _ in range(MAX_TICKETS + 1)]
    assert [desk.tickets.find(text) is None for text in issued] == [True] + [False] * MAX_TICKETS


@pytest.mark.covers("OD-3", "OD-4")
@pytest.mark.parametrize(("is_printed", "hours"), [(False, 12), (True, 1)])
async def test_how_long_a_page_is_signed_in(desk, is_printed, hours):
    key, seconds = desk.sign_in(is_printed=is_printed)
    assert seconds == hours * 3600
    desk.day += seconds - 1
    assert desk.tickets.open(key).is_printed == is_printed
    desk.day += 2
    assert desk.tickets.open(key) is None


@pytest.mark.covers("OD-4")
async def test_keys_outlive_the_hub_and_not_a_sign_out(desk):
    key, _ = desk.sign_in()
    desk.restart()
    assert desk.tickets.open(key) is not None
    ticket, _ = desk.tickets.issue(is_printed=False)
    desk.tickets.end_all()
    assert desk.tickets.open(key) is None
    assert desk.tickets.find(ticket) is None
    desk.restart()
    assert desk.tickets.open(key) is None
    assert desk.tickets.open(desk.sign_in()[0]) is not None
    assert desk.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.covers("OD-4")
async def test_keys_of_others_open_nothing(desk):
    key, _ = desk.sign_in()
    desk.restart(b"x" * 32)
    for text in (
        key,
        "",
        "v1",
        key[:-1],
        key + "A",
        Sealer(b"k" * 32).seal("ui", b"{}"),
        Sealer(b"k" * 32).seal("tasks", b"{}"),
    ):
        assert desk.tickets.open(text) is None


@pytest.mark.parametrize("data", [b"", b"1", b"x" * 32, b"0" * 64, None], ids=str)
async def test_a_lost_or_spoilt_number_signs_all_out(desk, data):
    key, _ = desk.sign_in()
    desk.path.unlink()
    if data is not None:
        desk.path.write_bytes(data)
        desk.path.chmod(0o600)
    desk.restart()
    assert desk.tickets.open(key) is None
    assert desk.tickets.open(desk.sign_in()[0]) is not None


async def test_where_nothing_can_be_written_pages_end_with_the_hub(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    desk = Desk(tmp_path / "file" / "dashboard")
    assert "pages sign in again after the next start" in caplog.text
    key, _ = desk.sign_in()
    assert desk.tickets.open(key) is not None
    with pytest.raises(OSError, match=r"irectory|exists"):
        desk.tickets.end_all()
    assert desk.tickets.open(key) is None
    await trio.lowlevel.checkpoint()
