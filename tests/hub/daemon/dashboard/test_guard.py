"""Who gets at the dashboard: every attack by its own headers and sockets."""

import json
import logging
import os
import sys

import pytest
import trio

from hub.daemon.dashboard.guard import HEADERS
from tests.support.dashboard_world import ANOTHER_UID, OWN, STRANGE, a_dashboard

TOKEN = "0123456789abcdef"
LOGIN, INBOX = "/ui/api/login", "/ui/api/overview"


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with a_dashboard(tmp_path, monkeypatch) as world:
        yield world


def kind_of(answer):
    return json.loads(answer.body)["kind"]


# --- names and pages of others ----------------------------------------------------------------------------------------


@pytest.mark.covers("OD-2", "OD-5")
async def test_the_names_of_the_hub(world):
    port = world.listener.address[1]
    good = [
        f"127.0.0.1:{port}",
        f"localhost:{port}",
        f"hubd-k3f9a2x7.localhost:{port}",
        f"HUBD-k3f9a2x7.LOCALHOST:{port}",
    ]
    for host in good:
        assert (await world.ask("/ui/", host=host)).status == 200
    evil = ["evil.test", f"evil.test:{port}", "hubd-k3f9a2x7.localhost", f"hubd-k3f9a2x7.localhost:{port + 1}"]
    evil += [
        f"a.hubd-k3f9a2x7.localhost:{port}",
        f"hubd-k3f9a2x7.localhost.evil.test:{port}",
        f"hubd-k3f9a2x.localhost:{port}",
    ]
    for host in [
        *evil,
        f"x.localhost:{port}",
        f"hubd-k3f9a2x7.localhost:{port}:1",
        f"hubd-k3f9a2x7.localhost:{port} "[:-1] + ".",
    ]:
        for path in ("/ui/", "/ui/app.js", LOGIN):
            assert (await world.ask(path, host=host)).status == 403, host
    for path in ("/mcp", "/healthz", "/"):
        assert (await world.ask(path, host=good[2])).status == 403, "that name is the dashboard's alone"


FOREIGN = [
    {"Origin": "https://evil.test"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Sec_Fetch_Site": "none"},
]


@pytest.mark.covers("OD-5")
@pytest.mark.parametrize("fields", FOREIGN, ids=str)
async def test_a_hostile_page_neither_reads_nor_posts(world, fields):
    ticket, key = await world.ticket(), await world.sign_in()
    for answer in (
        await world.ask(LOGIN, {"ticket": ticket}, **fields),
        await world.ask(INBOX, key=key, **fields),
        await world.ask("/ui/api/feed", key=key, **fields),
        await world.ask("/ui/api/do/reload", {}, key=key, **fields),
        await world.ask("/ui/api/do/reload", {}, method="OPTIONS", Access_Control_Request_Method="POST", **fields),
    ):
        assert answer.status == 403
        assert kind_of(answer) == "foreign"
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert (await world.ask(LOGIN, {"ticket": ticket})).status == 200, "the ticket was not used up"


@pytest.mark.covers("OD-5")
async def test_what_a_form_of_another_page_can_send_is_refused(world):
    key = await world.sign_in()
    for type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert (await world.ask("/ui/api/do/reload", {}, key=key, Content_Type=type)).status == 400
    assert (await world.ask("/ui/api/do/reload", key=key)).status == 404, "no GET does anything"
    assert (await world.ask(INBOX, key=key, method="PUT")).status == 400
    assert (await world.ask(LOGIN)).status == 400


@pytest.mark.covers("OD-5")
async def test_the_headers_of_every_answer(world):
    key = await world.sign_in()
    for path, shown in (
        ("/ui/", ""),
        ("/ui/app.js", ""),
        ("/ui/nothing.js", ""),
        (INBOX, key),
        (INBOX, ""),
        ("/ui/api/x", key),
    ):
        answer = await world.ask(path, key=shown)
        for name, value in HEADERS:
            assert answer.headers[name.lower()] == value, path
        assert "set-cookie" not in answer.headers
    assert "'unsafe" not in dict(HEADERS)["Content-Security-Policy"]


async def test_large_requests_are_refused_unread(world):
    key = await world.sign_in()
    for path, size in ((LOGIN, 2 << 10), ("/ui/api/do/reload", 65 << 10)):
        answer = await world.ask(path, {"ticket": "a" * size}, key=key)
        assert answer.status == 413
    answer = await world.ask(
        "/ui/api/do/reload", key=key, method="POST", Content_Type="application/json", Transfer_Encoding="chunked"
    )
    assert answer.status == 413
    assert (await world.ask("/ui/", b"{}", method="GET")).status == 400


# --- tickets ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("OD-2")
async def test_a_ticket_is_good_once(world):
    ticket = await world.ticket()
    assert (await world.ask(LOGIN, {"ticket": ticket})).status == 200
    again = await world.ask(LOGIN, {"ticket": ticket})
    assert (again.status, kind_of(again)) == (403, "ticket")
    assert "Run `hubd dashboard` again" in json.loads(again.body)["error"]


@pytest.mark.covers("OD-4")
async def test_whoever_guesses_tickets_is_slowed_down_and_keeps_nobody_out(world):
    statuses = [(await world.ask(LOGIN, {"ticket": f"guess {n}"})).status for n in range(12)]
    assert statuses == [403] * 10 + [429] * 2
    assert (await world.ask(LOGIN, {"ticket": "guess"})).headers["retry-after"] == "60"
    assert (await world.ask(LOGIN, {"ticket": await world.ticket()})).status == 200


@pytest.mark.covers("OD-4")
async def test_keys_and_paths(tmp_path, monkeypatch):
    """The key of a page opens the dashboard alone, and no token of hosts opens that."""
    monkeypatch.setattr("hub.daemon.http_listener.token_of", lambda config: TOKEN)
    async with a_dashboard(tmp_path, monkeypatch) as world:
        key = await world.sign_in()
        here = f"127.0.0.1:{world.listener.address[1]}"
        for credential, status in (("", 401), (TOKEN, 401), ("v1.00000000.AAAA", 401), (key, 200)):
            for path in (INBOX, "/ui/api/logs", "/ui/api/cache"):
                answer = await world.ask(path, key=credential, host=here)
                assert answer.status == status, path
                assert status == 200 or kind_of(answer) == "signed_out"
            assert (await world.ask("/ui/api/feed", key=credential, method="POST")).status in (400, 401)
            assert (await world.ask("/ui/", key=credential)).status == 200
            assert (await world.ask("/mcp", {}, key=credential, host=here)).status == (
                400 if credential == TOKEN else 401
            )
        assert (await world.ask(f"{INBOX}?key={key}")).status == 401, "no key counts in an address"


# --- other users and programs of the machine --------------------------------------------------------------------------


@pytest.mark.covers("OD-3")
async def test_another_user_who_read_the_address_is_not_signed_in(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "hubd")
    async with a_dashboard(tmp_path, monkeypatch, owners=STRANGE) as world:
        ticket = await world.ticket(is_printed=False)
        for _ in range(2):
            answer = await world.ask(LOGIN, {"ticket": ticket})
            assert (answer.status, kind_of(answer)) == (403, "browser")
            assert "hubd dashboard --print" in json.loads(answer.body)["error"]
        warnings = [each for each in caplog.records if "is not known as the user's" in each.message]
        assert len(warnings) == 2
        assert ticket not in caplog.text
        monkeypatch.setattr(world.dashboard.guard, "_ends", OWN)
        assert (await world.ask(LOGIN, {"ticket": ticket})).status == 200, "the user still gets in"


@pytest.mark.covers("OD-3")
async def test_a_key_that_another_user_has_read_opens_nothing(tmp_path, monkeypatch):
    """An open page sends its key to whoever has the port while the hub is away."""
    async with a_dashboard(tmp_path, monkeypatch) as world:
        answer = await world.ask(LOGIN, {"ticket": await world.ticket(is_printed=False)})
        key = json.loads(answer.body)["key"]
        assert (await world.ask(INBOX, key=key)).status == 200
        monkeypatch.setattr(world.dashboard.guard, "_ends", STRANGE)
        assert (await world.ask(INBOX, key=key)).status == 401
        assert (await world.ask("/ui/api/do/reload", {}, key=key)).status == 401


SEND = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(sys.stdin.buffer.read())
how = sys.argv[2]
if how == "half-closed":
    client.shutdown(socket.SHUT_WR)
if how == "reset":
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
if how in ("closed", "reset"):
    client.close()
else:
    print(client.recv(65536).decode())
"""


@pytest.mark.covers("OD-3")
@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be had by root")
@pytest.mark.parametrize("how", ["waits", "half-closed", "closed", "reset"])
async def test_another_users_program_is_seen_by_the_kernel(tmp_path, monkeypatch, how):
    """For a hub of root's that were not blind: whoever leaves at once has uid 0 in the kernel's table, or no row."""
    async with a_dashboard(tmp_path, monkeypatch) as world:
        ticket = await world.ticket(is_printed=False)
        data = world.request(LOGIN, {"ticket": ticket})
        before = ["setpriv", f"--reuid={ANOTHER_UID}", f"--regid={ANOTHER_UID}", "--clear-groups"]
        argv = [*before, sys.executable, "-c", SEND, str(world.listener.address[1]), how]
        done = await trio.run_process(argv, stdin=data, capture_stdout=True)
        assert b"200 OK" not in done.stdout
        assert world.dashboard.tickets.find(ticket) is not None, "the ticket was not used up"


@pytest.mark.covers("OD-3")
async def test_a_browser_that_a_server_has_started_decides_nothing(tmp_path, monkeypatch):
    async with a_dashboard(tmp_path, monkeypatch) as world:
        data = world.request(LOGIN, {"ticket": await world.ticket(is_printed=False)})
        argv = [sys.executable, "-c", SEND, str(world.listener.address[1]), "waits"]
        done = await trio.run_process(argv, stdin=data, capture_stdout=True)
        assert b"403 Forbidden" in done.stdout
        assert b"started by a server that hubd runs" in done.stdout


@pytest.mark.covers("OD-3")
async def test_a_printed_ticket_is_good_in_any_browser_for_an_hour(tmp_path, monkeypatch):
    async with a_dashboard(tmp_path, monkeypatch, owners=STRANGE) as world:
        answer = json.loads((await world.ask(LOGIN, {"ticket": await world.ticket()})).body)
        assert (answer["printed"], answer["expires_s"]) == (True, 3600)
        assert (await world.ask(INBOX, key=answer["key"])).status == 200


# --- where it is shown ------------------------------------------------------------------------------------------------


@pytest.mark.covers("OD-11")
@pytest.mark.parametrize(
    ("enabled", "fields", "status"),
    [
        ("local", {}, 200),
        ("local", {"X_Forwarded_For": "10.0.0.1"}, 404),
        ("local", {"Forwarded": "for=10.0.0.1"}, 404),
        ("local", {"Via": "1.1 tunnel"}, 404),
        ("on", {}, 200),
        ("on", {"X_Forwarded_For": "10.0.0.1"}, 200),
        ("off", {}, 404),
    ],
)
async def test_where_it_is_shown(tmp_path, monkeypatch, enabled, fields, status):
    from config.settings import DashboardConfig

    async with a_dashboard(tmp_path, monkeypatch, dashboard=DashboardConfig(enabled=enabled)) as world:
        for path in ("/ui/", "/ui/app.js"):
            assert (await world.ask(path, **fields)).status == status
        answer = await world.ask(LOGIN, {"ticket": await world.ticket()}, **fields)
        assert answer.status == status
        landing = await world.ask("/", Accept="text/html,*/*", host=f"127.0.0.1:{world.listener.address[1]}", **fields)
        assert (landing.status == 302) == (status == 200)


@pytest.mark.covers("OD-11")
async def test_behind_a_proxy_it_is_shown_only_where_that_is_wanted(tmp_path, monkeypatch):
    from config.settings import DashboardConfig

    for enabled, status in (("local", 404), ("on", 200)):
        settings = {"behind_tls_proxy": True, "dashboard": DashboardConfig(enabled=enabled)}
        async with a_dashboard(tmp_path, monkeypatch, **settings) as world:
            assert (await world.ask("/ui/")).status == status
            if status == 200:
                key = await world.sign_in()
                assert (await world.ask(INBOX, key=key, Origin=f"https://{world.host}")).status == 200


@pytest.mark.covers("OD-1")
async def test_browsers_are_led_there_and_programs_are_not(world):
    here = f"127.0.0.1:{world.listener.address[1]}"
    answer = await world.ask("/", Accept="text/html", host=here)
    assert (answer.status, answer.headers["location"]) == (302, "/ui/")
    assert (await world.ask("/", host=here)).status != 302
    assert (await world.ask("/ui")).headers["location"] == "/ui/"
