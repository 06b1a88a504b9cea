"""Values of references in the life of an upstream: read at starts, waited for by itself alone, renewed when refused."""

import shlex
import sys
import threading

import pytest
import trio
from msgspec import structs

from config.loading.split_accounts import split_accounts
from config.remembered_facts import Memory
from config.secret_references import Reference
from config.setting_declarations import Secret
from config.settings import OWNER, AccountSettings, Restart, Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import UpstreamUnavailable, UpstreamUnresolved
from hub.wire.jsonrpc import raw
from tests.support.fakes import FakeHost, FakeUpstream, make_supervisor, opener
from upstreams.lifecycle import State
from upstreams.read_secret_references import RENEWALS, ReferenceValues, Unresolvable, read_references
from upstreams.redact import Mask
from upstreams.retry_pauses import FAILED_PAUSE_S

KEY = Reference("secret", "K", "ab")
CONFIG = UpstreamConfig(command="x", env={"T": Secret("\0secret:ab:K\0")}, timeouts=Timeouts(start=20, call=100))
WEB = UpstreamConfig(url="https://h/mcp", headers={"Authorization": Secret("Bearer \0secret:ab:K\0")})
ECHO = Operation("tools/call", {"name": raw("echo")})


class Source:
    """Gives values in order, the last again and again; an exception is raised."""

    def __init__(self, *given):
        self.given = list(given)
        self.readings = 0

    def __call__(self, references, principal):
        self.readings += 1
        value = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(value, Exception):
            raise value
        return dict.fromkeys(references, value)


def values_of(config, source):
    return ReferenceValues("a", config, source, Mask(config))


async def test_values_are_filled_in_and_masked():
    values = values_of(CONFIG, Source("t0ken-0123"))
    await values.read_once()
    filled = values.fill(CONFIG)
    assert filled.env["T"].reveal() == "t0ken-0123"
    assert values.mask("it said t0ken-0123") == "it said ***"
    assert "t0ken" not in repr(values) + repr(filled)


async def test_without_references_nothing_is_read_and_nothing_copied():
    plain, source = UpstreamConfig(command="x", env={"T": Secret("${secret:K}")}), Source("x")
    values = values_of(plain, source)
    await values.read_anew()
    await values.read_once()
    assert values.fill(plain) is plain
    assert source.readings == 0


async def test_one_reading_serves_all_who_wait_and_a_start_reads_anew():
    source = Source("one", "two")
    values = values_of(CONFIG, source)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(values.read_once)
    assert source.readings == 1
    await values.read_anew()
    assert values.fill(CONFIG).env["T"].reveal() == "two"


@pytest.mark.parametrize(
    ("config", "value", "why"),
    [
        (WEB, "a\r\nX: b", "headers.Authorization: is no value for a header"),
        (structs.replace(WEB, url="\0secret:ab:K\0"), "file:///etc", "url: expected an address"),
        (structs.replace(CONFIG, cwd="\0secret:ab:K\0"), "here", "cwd: is no absolute path"),
    ],
)
async def test_values_that_do_not_fit_are_refused_without_being_shown(config, value, why):
    with pytest.raises(UpstreamUnresolved) as raised:
        await values_of(config, Source(value)).read_anew()
    assert why in str(raised.value)
    assert value not in str(raised.value)


async def test_headers_that_were_refused_are_read_once_more_for_all():
    source = Source("one", "two")
    values = values_of(WEB, source)
    await values.read_anew()
    refused = {"Authorization": "Bearer one"}
    found = []

    async def renew():
        found.append(await values.renew_headers(refused))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(renew)
    assert found == [{"Authorization": "Bearer two"}] * 50
    assert source.readings == 2


async def test_a_server_that_refuses_everything_is_not_asked_for_ever(autojump_clock):
    source = Source(*(f"value{n}" for n in range(100)))
    values = values_of(WEB, source)
    await values.read_anew()
    headers = {"Authorization": "Bearer value0"}
    for _ in range(RENEWALS):
        headers = await values.renew_headers(headers)
    assert await values.renew_headers(headers) is None
    await trio.sleep(31)
    assert await values.renew_headers(headers) is not None


async def test_there_may_be_no_new_headers():
    values = values_of(WEB, Source("one", Unresolvable("gone")))
    await values.read_anew()
    assert await values.renew_headers({"Authorization": "Bearer one"}) is None
    assert values.fill(WEB).headers["Authorization"].reveal() == "Bearer one"


# --- an upstream ------------------------------------------------------------------------------------------------------


def supervisor_of(source, **fakes):
    return make_supervisor(Memory(None), lambda name: None, run_session=opener(fakes), read_references=source)


@pytest.mark.covers("BOX-01")
async def test_an_upstream_without_its_value_is_unresolved_and_a_call_tries_again(nursery, mock_clock):
    source = Source(Unresolvable("${secret:K} has no value: there is no secret K: run `hubd secret set K`"), "v")
    supervisor = supervisor_of(source, a=FakeUpstream(), b=FakeUpstream())
    await nursery.start(supervisor.run, {"a": CONFIG, "b": UpstreamConfig(command="x")})
    await supervisor.settled.wait()
    upstream = supervisor.upstreams["a"]
    assert (upstream.state, supervisor.upstreams["b"].state) == (State.UNRESOLVED, State.CONNECTED)
    status = upstream.status()
    assert status.state == "unresolved"
    assert "run `hubd secret set K`" in (status.last_error or "")
    with pytest.raises(UpstreamUnavailable, match=r"state: unresolved.*run `hubd secret set K`"):
        await upstream.call(ECHO, FakeHost())
    assert source.readings == 1
    mock_clock.jump(FAILED_PAUSE_S)
    await upstream.call(ECHO, FakeHost())
    assert upstream.state is State.CONNECTED
    assert source.readings == 2


async def test_a_cold_start_without_its_value_is_not_queued_and_calls_get_the_reason(nursery):
    source = Source(Unresolvable("${secret:K} has no value: the keyring is locked: unlock it"))
    supervisor = supervisor_of(source, a=FakeUpstream())
    await nursery.start(supervisor.run, {"a": structs.replace(CONFIG, command="npx", args=("-y", "foo"))})
    await supervisor.settled.wait()
    upstream = supervisor.upstreams["a"]
    assert upstream.state is State.UNRESOLVED
    assert not upstream.status().queued
    with pytest.raises(UpstreamUnavailable, match=r"state: unresolved.*the keyring is locked: unlock it") as raised:
        await upstream.call(ECHO, FakeHost())
    assert "other servers" not in str(raised.value)


async def test_sessions_get_the_values_and_a_restart_reads_them_anew(nursery):
    started, opens = trio.open_memory_channel(10)
    open_fake = opener({"a": FakeUpstream()})

    async def run_session(config, *rest):
        await started.send(config.env["T"].reveal())
        await open_fake(config, *rest)

    source = Source("one", "two")
    supervisor = make_supervisor(Memory(None), lambda name: None, run_session=run_session, read_references=source)
    await nursery.start(supervisor.run, {"a": CONFIG})
    assert await opens.receive() == "one"
    supervisor.restart("a")
    assert await opens.receive() == "two"


@pytest.mark.covers("BOX-01")
async def test_whoever_waits_for_a_keyring_delays_nobody(nursery):
    """Nine servers wait, and more than may start at once start beside them."""
    asked = threading.Semaphore(0)
    unlocked = threading.Event()

    def locked(references, principal):
        asked.release()
        assert unlocked.wait(60)
        return dict.fromkeys(references, "v")

    waiting = {f"w{n}": CONFIG for n in range(9)}
    others = {f"o{n}": UpstreamConfig(command="x", restart=Restart()) for n in range(9)}
    supervisor = supervisor_of(locked, **{name: FakeUpstream() for name in waiting | others})
    await nursery.start(supervisor.run, waiting | others)
    try:
        for _ in waiting:
            await trio.to_thread.run_sync(asked.acquire)
        with trio.fail_after(30):
            for name in others:
                upstream = supervisor.upstreams[name]
                while upstream.state is not State.CONNECTED:
                    await upstream.availability.news.wait()
        assert {supervisor.upstreams[name].state for name in waiting} == {State.CONNECTING}
    finally:
        unlocked.set()
    with trio.fail_after(30):
        await supervisor.settled.wait()


async def test_one_that_is_removed_while_it_waits_is_gone_at_once(nursery):
    unlocked = threading.Event()

    def locked(references, principal):
        unlocked.wait(60)
        return dict.fromkeys(references, "v")

    supervisor = supervisor_of(locked, a=FakeUpstream())
    await nursery.start(supervisor.run, {"a": CONFIG})
    gone = trio.Event()
    supervisor.upstreams["a"].gone = gone.set
    try:
        supervisor.apply({})
        with trio.fail_after(30):
            await gone.wait()
    finally:
        unlocked.set()


CANARY = "s3cret-canary-0123456789"
HIDDEN = f"'{CANARY[::-1]}'[::-1]"
"""An expression for it, so that it does not stand in the command itself."""


def command(code):
    return Reference("cmd", shlex.join([sys.executable, "-I", "-c", code]))


def value(reference):
    return read_references([reference])[reference]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("x", "x"), ("x\n", "x"), ("x\r\n", "x"), ("x\n\n", "x\n"), (" x ", " x "), ("a\nb\n", "a\nb"), ("é", "é")],
)
def test_what_a_program_prints_is_the_value_without_one_line_end(printed, expected):
    assert value(command(f"import sys; sys.stdout.buffer.write({printed.encode()!r})")) == expected


@pytest.mark.covers("BOX-01")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        (f"print({HIDDEN}); import sys; sys.exit('not signed in: run `op signin`')", "not signed in: run `op signin`"),
        (f"print({HIDDEN}); import sys; sys.exit(4)", "exited with status 4$"),
        (f"print({HIDDEN}, flush=True); import os; os.kill(os.getpid(), 15)", "was killed by signal 15"),
        (f"import sys\nwhile True: sys.stdout.write({HIDDEN})", "printed more than 64 KB"),
        (f"print({HIDDEN} + chr(0))", "holds a NUL character"),
        (f"import sys; sys.stdout.buffer.write({HIDDEN}.encode() + bytes([255]))", "no UTF-8 text"),
        ("pass", "it is empty"),
        ("print()", "it is empty"),
    ],
)
def test_a_program_that_gives_none_is_named_and_its_output_is_not(code, why):
    with pytest.raises(Unresolvable, match=why) as raised:
        value(command(code))
    assert CANARY not in str(raised.value)


def test_one_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr("upstreams.read_secret_references.COMMAND_S", 0.5)
    with pytest.raises(Unresolvable, match=r"did not end within 0\.5 seconds"):
        value(command("import time; time.sleep(600)"))


def test_one_that_is_not_there_is_named():
    with pytest.raises(Unresolvable, match=r"\$\{cmd:no-such-program x\} has no value: no-such-program was not found"):
        value(Reference("cmd", "no-such-program x"))


def test_there_is_no_shell():
    assert value(Reference("cmd", "echo $HOME '; id' `id`")) == "$HOME ; id `id`"


def test_the_terminal_is_safe_from_what_a_program_says():
    with pytest.raises(Unresolvable, match=r"status 1: \\x1b\]0;owned"):
        value(command("import sys; sys.exit(chr(27) + ']0;owned')"))


def test_credentials_are_files_of_their_directory(tmp_path, monkeypatch):
    reference = Reference("credential", "db.password")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(Unresolvable, match=r"CREDENTIALS_DIRECTORY is not set: .* LoadCredential=db\.password:FILE"):
        value(reference)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(Unresolvable, match=r"cannot read .*db\.password: No such file"):
        value(reference)
    (tmp_path / "db.password").write_text(f"{CANARY}\n")
    assert value(reference) == CANARY
    (tmp_path / "db.password").write_bytes(b"x" * 65537)
    with pytest.raises(Unresolvable, match="larger than 64 KB"):
        value(reference)
    (tmp_path / "db.password").write_bytes(b"\xff")
    with pytest.raises(Unresolvable, match="no UTF-8"):
        value(reference)


def test_a_secret_that_is_not_kept_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(
        Unresolvable, match=r"\$\{secret:K\} has no value: there is no secret K: run `hubd secret set K`"
    ):
        value(Reference("secret", "K"))


async def test_where_everybody_has_an_account_secrets_are_those_of_who_calls():
    read = []

    def source(references, principal):
        read.append(principal)
        return dict.fromkeys(references, f"key of {principal}")

    each = structs.replace(CONFIG, account="each")
    values = values_of(each, source)
    assert values.are_own
    assert values.of(OWNER) is values
    await values.of("bob").read_once()
    await values.of("bob").read_once()
    await values.read_once()
    assert read == ["bob", "bob", OWNER], "nothing of another's is kept"
    shared = values_of(CONFIG, source)
    assert not shared.are_own
    assert shared.of("bob") is shared


@pytest.mark.parametrize("first", ["work", "private"])
async def test_each_of_several_accounts_has_its_values(first):
    own = AccountSettings(env={"K": Secret("\0secret:ab:K\0")})
    accounts = dict.fromkeys([first, "work", "private"], own)
    for name, config in split_accounts({"a": structs.replace(CONFIG, accounts=accounts)}).items():
        values = values_of(config, Source(f"key of {name}"))
        await values.read_once()
        assert values.fill(config).env["K"].reveal() == f"key of {name}"
