"""Who is at the other end of a connection: real sockets, real users, and tables as other machines have them."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from hub.linux.socket_tables import find_peer
from hub.net.http_request import Ends, HttpRequest
from hub.sign_in.connection_owner import NOBODY, ConnectionOwners, Who, is_forwarded, is_from_here

HOST = {"host": "127.0.0.1:8765"}
ENDS = Ends(("127.0.0.1", 8765), ("127.0.0.1", 40000))
ANOTHER_UID = 4242
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be had by root")


def ends_of(sock: socket.socket) -> Ends:
    return Ends(sock.getsockname()[:2], sock.getpeername()[:2])


def request(ends=ENDS, **headers) -> HttpRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("GET", "/oauth/begin/x", {**HOST, **named}, ends=lambda: ends)


@pytest.fixture(params=["127.0.0.1", "::1", "mapped"])
def pair(request):
    """The hub's end and a browser's."""
    family = socket.AF_INET if request.param == "127.0.0.1" else socket.AF_INET6
    address = {"mapped": "::"}.get(request.param, request.param)
    with socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::") as listener:
        host = "127.0.0.1" if request.param == "mapped" else address
        client = socket.create_connection((host, listener.getsockname()[1]))
        served = listener.accept()[0]
        with client, served:
            yield served, client


def test_an_own_program(pair):
    served, client = pair
    uid, inode = find_peer(*ends_of(served))
    assert uid == os.geteuid()
    assert inode == os.fstat(client.fileno()).st_ino


async def test_who_that_is(pair):
    served, _ = pair
    own, other = ConnectionOwners(blind=False), ConnectionOwners(ANOTHER_UID, blind=False)
    assert await own.who(request(ends_of(served))) is Who.OWN
    assert await other.who(request(ends_of(served))) is Who.UNKNOWN
    assert own.uid_of(ends_of(served)) == os.geteuid()


async def test_a_crowd_of_browsers_takes_no_thread_of_others(monkeypatch):
    go, ends, looking = threading.Event(), ConnectionOwners(blind=False), []

    def look(ends):
        looking.append(ends)
        go.wait(60)
        return Who.UNKNOWN

    monkeypatch.setattr(ends, "_look", look)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ends.who, request())
        await trio.testing.wait_all_tasks_blocked()
        shared = trio.to_thread.current_default_thread_limiter().borrowed_tokens
        at_once = ends._limiter.borrowed_tokens
        go.set()
    assert (shared, at_once, len(looking)) == (0, 2, 5)


def half_closed(client):
    client.shutdown(socket.SHUT_WR)


def closed(client):
    client.close()


def was_reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()


@pytest.mark.parametrize("leave", [half_closed, closed, was_reset])
def test_whoever_does_not_stay_is_nobody(pair, leave):
    """The table would say root of them, or nothing."""
    served, client = pair
    ends = ends_of(served)
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    leave(client)
    assert find_peer(*ends) is None


async def test_a_closed_connection_is_nobodys(pair):
    blind = ConnectionOwners(blind=True)
    assert await ConnectionOwners(blind=False).who(HttpRequest("GET", "/", {})) is Who.UNKNOWN
    assert await blind.who(request(ends_of(pair[0]))) is Who.UNKNOWN
    assert blind.uid_of(ends_of(pair[0])) is None


CONNECT = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(b"x")
sys.stdin.read()
"""


def browser(port: int, *before: str) -> subprocess.Popen:
    return subprocess.Popen([*before, sys.executable, "-c", CONNECT, str(port)], stdin=subprocess.PIPE)


@is_root
async def test_another_user():
    before = ["setpriv", f"--reuid={ANOTHER_UID}", f"--regid={ANOTHER_UID}", "--clear-groups"]
    with socket.create_server(("127.0.0.1", 0)) as listener, browser(listener.getsockname()[1], *before) as other:
        served, _ = listener.accept()
        with served:
            served.recv(1)
            assert find_peer(*ends_of(served))[0] == ANOTHER_UID
            assert await ConnectionOwners(0, blind=False).who(request(ends_of(served))) is Who.UNKNOWN
            # For a hub of that user it is no child, and so the user's own; of this process it is one.
            assert await ConnectionOwners(ANOTHER_UID, blind=False).who(request(ends_of(served))) is Who.SERVER
        other.stdin.close()


async def test_a_browser_that_a_server_runs():
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, browser(listener.getsockname()[1], "sh", "-c", '"$@"; true', "sh") as below:
        served, _ = listener.accept()
        with served:
            served.recv(1)
            assert await ConnectionOwners(blind=False).who(request(ends_of(served))) is Who.SERVER
        below.stdin.close()


# --- as other machines are --------------------------------------------------------------------------------------------

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
PEER, OWN = "0100007F:9C40", "0100007F:223D"
MAPPED = "0000000000000000FFFF0000"


def row(near=PEER, far=OWN, state="01", uid=1000, inode=77) -> str:
    return (
        f"   0: {near} {far} {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0 20 4 30 10 -1\n"
    )


def machine(tmp_path: Path, *rows: str, six: str | None = "", uid_map="0 0 4294967295", release="6.1") -> Path:
    for path in ("net", "self", "sys/kernel"):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
    (tmp_path / "net/tcp").write_text(HEAD + "".join(rows))
    if six is not None:
        (tmp_path / "net/tcp6").write_text(HEAD + six)
    (tmp_path / "self/uid_map").write_text(f"  {uid_map}\n")
    (tmp_path / "sys/kernel/osrelease").write_text(f"{release}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([row()], (1000, 77)),
        ([row(OWN, PEER, uid=0), row()], (1000, 77)),  # the hub's own end is the other way round
        ([], None),
        ([row(), row()], (1000, 77)),  # read twice, while the table changed
        ([row(), row(inode=78)], None),
        ([row(state="06")], None),
        ([row(state="08")], None),
        ([row(uid=0, inode=0)], None),
        ([row(inode=0)], None),
        ([row(near="0100007F:9C41")], None),
        ([row(far="0100007F:223E")], None),
        ([row(uid="x")], None),
        ([row()[:60]], None),
        ([row(near=MAPPED + PEER, far=MAPPED + OWN)], (1000, 77)),
    ],
)
def test_rows(tmp_path, rows, found):
    assert find_peer(*ENDS, machine(tmp_path, *rows)) == found


def test_a_row_that_one_reading_leaves_out(tmp_path):
    tables = [machine(tmp_path) / "net" / name for name in ("tcp", "tcp6")]
    for table in tables:
        table.unlink()
        os.mkfifo(table)

    def write():
        for rows in ("", row()):
            for table, text in zip(tables, (rows, ""), strict=True):
                table.write_text(HEAD + text)  # waits for its reader, who has done with the other table then

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert find_peer(*ENDS, tmp_path) == (1000, 77)
    writer.join()


def test_a_row_in_both_tables_is_two(tmp_path):
    assert find_peer(*ENDS, machine(tmp_path, row(), six=row(MAPPED + PEER, MAPPED + OWN, inode=78))) is None


@pytest.mark.parametrize(
    ("uid", "more", "blind"),
    [
        (1000, {}, False),
        (0, {}, True),
        (NOBODY, {}, True),
        (1000, {"uid_map": "0 1000 1"}, True),
        (1000, {"uid_map": "1000 1000 1"}, True),
        (1000, {"uid_map": ""}, True),
    ],
)
def test_who_is_blind(tmp_path, uid, more, blind):
    assert ConnectionOwners(uid, proc=machine(tmp_path, row(), **more)).blind == blind


def test_without_the_file_a_hub_is_blind(tmp_path):
    assert ConnectionOwners(1000, proc=tmp_path).blind


@pytest.mark.parametrize(("release", "who"), [("6.1", Who.UNKNOWN), ("5.15-microsoft-standard-WSL2", Who.OWN)])
async def test_root_is_a_relay_of_windows_and_else_anybody(tmp_path, release, who):
    ends = ConnectionOwners(1000, proc=machine(tmp_path, row(uid=0), release=release))
    assert await ends.who(request()) is who


@pytest.mark.parametrize(
    ("ends", "headers", "here"),
    [
        (ENDS, {}, True),
        (ENDS, {"host": "localhost:8765"}, True),
        (Ends(("::1", 1), ("::1", 2)), {"host": "[::1]:8765"}, True),
        (Ends(("::ffff:127.0.0.1", 1), ("::ffff:127.0.0.1", 2)), {}, True),
        (None, {}, False),
        (Ends(("10.0.0.1", 1), ("10.0.0.2", 2)), {}, False),
        (ENDS, {"host": "hub.example"}, False),
        (ENDS, {"host": "127.0.0.1.evil.test"}, False),
        (ENDS, {"forwarded": "for=1.2.3.4"}, False),
        (ENDS, {"x-forwarded-for": "1.2.3.4"}, False),
        (ENDS, {"x-forwarded-proto": "https"}, False),
        (ENDS, {"x-real-ip": "1.2.3.4"}, False),
        (ENDS, {"via": "1.1 x"}, False),
        (ENDS, {"cf-connecting-ip": "1.2.3.4"}, False),
    ],
)
def test_from_here(ends, headers, here):
    assert is_from_here(request(ends, **headers)) == here
    assert is_forwarded({"x": "y"}) is False
