"""A hub in a process of its own that signs in at the rig's servers, with the person who does it: blocking.

with signing_hub(tmp_path, {"notes": liar.url}) as hub:
    assert hub.call() == X
    hub.sign_in()
    assert hub.call().text == "read: done"
"""

import json
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from config.settings import HubConfig
from hub.control.answers import UpstreamRow
from hub.control.client import ControlClient
from hub.control.methods import SIGN_IN, SIGN_IN_FINISH, SIGN_IN_STATUS, SIGN_OUT, STATUS
from hub.control.sign_in_messages import SignedOutAccount, SignInAccount, SignInOutcome, SignInStep
from hub.daemon.assemble_sign_ins import oauth_seal
from hub.link.call_interface import OWNER
from hub.link.sealing import load_keys
from tests.support.attached import Post
from tests.support.oauth.rig import walk, walk_to_the_end
from tests.support.processes import Hub, free_port, running_hub
from upstreams.oauth.model import Grant
from upstreams.oauth.store.grant_store import GrantStore

META = "io.hubd/error"
NAME = "notes"


class Called(NamedTuple):
    """What a host is told of a call."""

    text: str
    """Of the result, or of the error."""
    is_error: bool
    facts: Mapping[str, object]
    """The hub's own, of an error."""

    @property
    def is_good(self) -> bool:
        """True if the upstream's result came."""
        return not self.is_error and self.text == "read: done"


class Begun:
    """A sign-in that is on its way; the hub's connection for it stays open until `outcome`."""

    def __init__(self, client: ControlClient, step: SignInStep) -> None:
        self._client = client
        self.step = step

    @property
    def url(self) -> str:
        """The authorization URL."""
        return self.step.authorization_url

    def outcome(self) -> SignInOutcome:
        """What came of it."""
        found = self._client.further(SIGN_IN).outcome
        assert isinstance(found, SignInOutcome)
        return found


class SigningHub:
    """A hub that runs."""

    def __init__(self, hub: Hub, directory: Path) -> None:
        self.hub = hub
        self.directory = directory

    @property
    def log(self) -> str:
        """The log so far."""
        return (self.directory / "hubd.log").read_text(errors="replace")

    @contextmanager
    def control(self) -> Iterator[ControlClient]:
        """The control socket."""
        with ControlClient(Path(self.hub.env["XDG_RUNTIME_DIR"], "hubd", "control.sock")) as client:
            yield client

    def row(self, name: str = NAME) -> UpstreamRow:
        """The upstream as `hubd status` shows it."""
        with self.control() as client:
            (row,) = [row for row in client.request(STATUS).upstreams if row.name == name]
            return row

    def account(self, name: str = NAME) -> SignInAccount:
        """The account as `hubd auth --status` shows it."""
        with self.control() as client:
            (account,) = client.request(SIGN_IN_STATUS, name=name).accounts
            return account

    def until_refused(self, name: str = NAME) -> None:
        """Wait until the upstream wants a sign-in, which its journal tells."""
        with self.control() as client:
            for _ in client.follow(name, 100):
                if self.row(name).state == "unauthorized":
                    return

    @contextmanager
    def begun(self, name: str = NAME, **options: object) -> Iterator[Begun]:
        """A sign-in that a terminal begins, which agrees to nothing unless `yes`."""
        with self.control() as client:
            yield Begun(client, client.request(SIGN_IN, name=name, **options))

    def finish(self, address: str) -> SignInOutcome:
        """Paste the address of a page that did not load."""
        with self.control() as client:
            return client.request(SIGN_IN_FINISH, address=address)

    def sign_in(self, name: str = NAME, *, user: str = "alice", **options: object) -> SignInOutcome:
        """What a person does: begins, fills in the forms, and pastes the address."""
        with self.begun(name, **options) as begun:
            assert begun.url, begun.step.unusual
            self.finish(walk(begun.url, user=user))
            return begun.outcome()

    def sign_in_by_page(self, name: str = NAME, **options: object) -> SignInOutcome:
        """The same, where the browser comes back to the hub."""
        with self.begun(name, **options) as begun:
            walk_to_the_end(begun.url)
            return begun.outcome()

    def sign_out(self, name: str = NAME, *, forget: bool = False) -> SignedOutAccount:
        """`hubd logout`."""
        with self.control() as client:
            (account,) = client.request(SIGN_OUT, name=name, forget=forget).accounts
            return account

    def call(self, tool: str = "notes__read") -> Called:
        """A call of a modern host."""
        return told(Post(self.hub, tool, {}, token=self.hub.token).answer()[1])

    def calls(self, count: int, tool: str = "notes__read") -> list[Called]:
        """Calls of as many hosts at a time."""
        found: queue.Queue[Called] = queue.Queue()
        threads = [threading.Thread(target=lambda: found.put(self.call(tool))) for _ in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(90)
        return [found.get(timeout=1) for _ in range(count)]


def told(message: Mapping[str, object]) -> Called:
    """What an answer says."""
    if "error" in message:
        error = message["error"]
        assert isinstance(error, dict)
        return Called(str(error["message"]), True, error.get("data") or {})
    result = message["result"]
    assert isinstance(result, dict), message
    if "content" not in result:
        return Called(json.dumps(result), True, {})
    text = "".join(part.get("text", "") for part in result["content"])
    facts = next(iter((result.get("_meta") or {}).values()), {}) if result.get("isError") else {}
    return Called(text, bool(result.get("isError")), facts)


@contextmanager
def signing_hub(
    directory: Path, urls: Mapping[str, str], more: str = "", *, listen: str = "", **settings: str
) -> Iterator[SigningHub]:
    """A hub with these upstreams, in directories of its own that the next one finds again. `settings`: lines of
    [upstreams.NAME.oauth]; `more` comes before the tables."""
    tables = [more]
    for name, url in urls.items():
        tables.append(f"[upstreams.{name}]\nurl = {json.dumps(url)}\n{settings.get(name, '')}")
    with running_hub(directory, "\n".join(tables), listen=listen or f"127.0.0.1:{free_port()}") as hub:
        yield SigningHub(hub, directory)


def state_folder(directory: Path) -> Path:
    """The state folder of the hub whose directories are below `directory`."""
    return directory / "xdg_state_home" / "hubd"


def kept(directory: Path) -> GrantStore:
    """What a hub that does not run has kept, with its key."""
    state = state_folder(directory)
    return GrantStore(state / "oauth", oauth_seal(HubConfig(), load_keys(state / "keys"), state))


def grant_of(directory: Path, name: str = NAME) -> Grant:
    """The grant that a hub has kept."""
    found = kept(directory).find(name, OWNER)
    assert found is not None
    return found


def age(directory: Path, name: str = NAME, by_s: float = 120.0) -> None:
    """Let time pass for the grant of a hub that does not run."""
    store = kept(directory)
    grant = grant_of(directory, name)
    ends = None if grant.expires_at is None else grant.expires_at - by_s
    store.save(replace(grant, obtained_at=grant.obtained_at - by_s, expires_at=ends))
