"""Replay of a conversation to a new hub, so that the host does not notice a restart. Pure.

The new hub gets the state of the old one, and its unanswered requests:

    initialize               sent again, its answer kept from the host; the rest follows when it has come
    initialized, setLevel    sent again
    resources/subscribe      sent again for each resource, a few at a time; then the host is told that each has changed,
                             since it may have meanwhile; what is refused is tried again for a while
    subscriptions/listen     sent again; of a listen that was acknowledged before, the host does not see the second
                             acknowledgement, but that all it listens to has changed
    requests that may be     sent again, once
    repeated
    all others               answered with an error at once: nobody knows whether they were carried out
    questions of the hub     withdrawn; the new hub has other ids, so late answers mean nothing to it

Lists are said to have changed only where they differ, if both hubs say digests of them. `lists` holds back until then.

A line is remembered once the hub has received all of it; before that it cannot have acted upon it.
"""

from hub.shim import mini_jsonrpc as rpc
from hub.shim.list_digests import SeenLists
from hub.shim.mini_jsonrpc import Id, as_id, as_object
from hub.wire import vocabulary as mcp

READS = {mcp.COMPLETE, mcp.DISCOVER, mcp.LISTEN, mcp.PING, mcp.PROMPTS_GET, mcp.RESOURCES_READ}
"""Requests that change nothing, beside all lists."""
SETTINGS = {mcp.INITIALIZE, mcp.SET_LEVEL, mcp.SUBSCRIBE, mcp.UNSUBSCRIBE}
"""Requests that change no more when they are sent twice."""

MAX_RUNNING = 1024
MAX_KEPT_LINE_BYTES = 1 << 16
MAX_KEPT_BYTES = 1 << 20
"""Limit of all lines that may have to be sent again. Requests beyond it are answered with an error instead."""
AT_ONCE = 8
"""Subscriptions replayed at one time; the hub takes 64 requests of a host."""

ANSWERS = b'{"jsonrpc":"2.0","id":'
REFUSES = tuple(b'{"jsonrpc":"2.0","error":{"code":%d,' % code for code in (mcp.INVALID_PARAMS, mcp.INTERNAL_ERROR))
"""Beginnings of refusals of a host, in contrast to complaints about a line of it that cannot be read."""
CANCELS, ACKNOWLEDGES = (b'{"jsonrpc":"2.0","method":"%b"' % m.encode() for m in (mcp.CANCELLED, mcp.ACKNOWLEDGED))
"""Beginnings of the lines of the hub that the shim has to read."""


class SentRequest:
    """A request that the hub has received and not answered. `line` is empty if it cannot be sent again."""

    __slots__ = ("acknowledged", "again", "line", "method", "uri")

    def __init__(self, method: str, line: bytes, uri: str) -> None:
        self.method = method
        self.line = line
        self.uri = uri
        self.again = self.acknowledged = False


class Replay:
    """One conversation over any number of connections.

    `served`: the present connection has answered a request of the host. `stopping`: the hub has said goodbye.
    `refusal`: why the hub refuses this host. `greeted`: the host's lines may go to the hub."""

    def __init__(self) -> None:
        self.served = self.stopping = False
        self.greeted = True
        self.refusal = ""
        self.questions: dict[Id, None] = {}
        """Requests of the hub that the host has not answered."""
        self._running: dict[Id, SentRequest] = {}
        self._handshake: tuple[Id, bytes] | None = None
        self._version: object = None
        self._lists: list[str] = []
        """Lists, by their flags, of which the hub says when they change."""
        self._seen = SeenLists()
        self._initialized = b""
        self._level: tuple[Id, bytes] | None = None
        self._subscribed: dict[str, tuple[Id, bytes]] = {}
        self._kept_bytes = 0
        self._awaited: dict[Id, str] = {}
        """Replayed requests whose answers the host must not see, and the resource of each."""
        self._acknowledged: set[Id] = set()
        """Replayed listens whose acknowledgement the host has seen."""
        self.unsubscribed: list[str] = []
        """Subscriptions that the new hub does not have yet."""
        self.refused: list[str] = []
        """Subscriptions that the new hub refused; `retry` asks again."""

    @property
    def waits(self) -> bool:
        """True if the hub owes the host an answer, beside those of streams that stay open."""
        return not self.greeted or any(request.method != mcp.LISTEN for request in self._running.values())

    # --- from the host

    def sent(self, line: bytes, *, whole: bool = True) -> None:
        """Note a line that the hub has received. Unless it is `whole` it lacks its middle, and cannot be sent again."""
        try:
            said = rpc.members(line) if whole else rpc.members_of_ends(line)
            if isinstance(said, dict):
                self._note(said, line if whole else b"")
            elif isinstance(said, list):
                for message in said:
                    self._note(as_object(message), b"")
            else:
                self._seen.asked(None)
        except Exception:  # noqa: BLE001 - a line that cannot be noted has passed all the same
            pass

    def _note(self, message: dict[str, object], line: bytes) -> None:
        method, id = message.get("method"), as_id(message.get("id"))
        if not isinstance(method, str):
            if id is not None:
                self.questions.pop(id, None)
        elif id is not None:
            self._seen.asked(method)
            if id not in self._running and len(self._running) < MAX_RUNNING:
                self._running[id] = self._request(method, message, line)
        elif method == mcp.CANCELLED:
            self._forget(as_id(rpc.params_of(line, message).get("requestId")))
        elif method == mcp.INITIALIZED:
            self._initialized = line

    def _request(self, method: str, message: dict[str, object], line: bytes) -> SentRequest:
        if not is_harmless(method):
            return SentRequest(method, b"", "")
        about_uri = method in (mcp.SUBSCRIBE, mcp.UNSUBSCRIBE)
        uri = _text(rpc.params_of(line, message).get("uri")) if about_uri else ""
        if method == mcp.UNSUBSCRIBE:
            self._unsubscribe(uri)
        return SentRequest(method, self._keep(line), uri)

    def _keep(self, line: bytes) -> bytes:
        """`line`, if there is room to keep it; else b""."""
        if len(line) > MAX_KEPT_LINE_BYTES or self._kept_bytes + len(line) > MAX_KEPT_BYTES:
            return b""
        self._kept_bytes += len(line)
        return line

    def _forget(self, id: Id | None) -> None:
        if id is not None and (request := self._running.pop(id, None)):
            self._kept_bytes -= len(request.line)

    def _unsubscribe(self, uri: str) -> None:
        if uri in self._subscribed:
            self._kept_bytes -= len(self._subscribed.pop(uri)[1])

    # --- from the hub

    def reads(self, begun: bytes) -> bool:
        """True if the shim needs more than the id of a line of the hub that begins so."""
        if not begun.startswith(ANSWERS):
            return begun.startswith((CANCELS, ACKNOWLEDGES, mcp.SHIM_LINE, *REFUSES, b"["))
        id, _ = rpc.first_id(begun, len(ANSWERS), len(begun))
        if id is None or self._awaited.get(id) == mcp.INITIALIZE:
            return True
        request = self._running.get(id)
        return request is not None and request.method == mcp.INITIALIZE

    def on_hub_lines(self, data: bytes) -> bytes:
        """Note whole lines of the hub; the bytes of them that the host gets: `data` itself, if it gets them all."""
        pieces: list[bytes] = []
        passed = start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1
            try:
                other = self._heard(data, start, end)
            except Exception:  # noqa: BLE001 - a line that cannot be noted passes all the same
                other = None
            if other is not None:
                pieces += data[passed:start], other
                passed = end
            start = end
        return b"".join((*pieces, data[passed:])) if pieces else data

    def _heard(self, data: bytes, start: int, end: int) -> bytes | None:
        """The bytes that the host gets in place of a line; None: the line itself."""
        if data.startswith(ANSWERS, start):
            return self._answers(data, start, end)
        if data.startswith(CANCELS, start):
            id = as_id(rpc.params_of(data[start:end], {}).get("requestId"))
            return None if id is None else self._cancels(id)
        if data.startswith(ACKNOWLEDGES, start):
            return self._acknowledges(rpc.params_of(data[start:end], {}))
        if data.startswith(mcp.SHIM_LINE, start):
            said = as_object(rpc.parse(data[start:end]))
            self.stopping = self.stopping or "bye" in said
            return self._seen.on_digests(as_object(said["lists"])) if "lists" in said else b""
        if data.startswith(REFUSES, start) and not self.served:
            self.refusal = _error(rpc.parse(data[start:end]))
            # requests that wait are answered with their ids, and nothing else is
            return None if self.greeted and not self._running else b""
        if data.startswith(b"[", start):
            batch = rpc.parse(data[start:end])
            for message in batch if isinstance(batch, list) else ():
                self._forget(as_id(as_object(message).get("id")))
            return None
        return self._seen.hub_changed(data[start:end]) if self._seen.waits else None

    def _answers(self, data: bytes, start: int, end: int) -> bytes | None:
        id, at = rpc.first_id(data, start + len(ANSWERS), end)
        if id is None:
            return None
        kind = data[at + 2 : at + 3]  # of "result", "error" or "method"
        if kind == b"m":
            if len(self.questions) < MAX_RUNNING:
                self.questions[id] = None
            return None
        if id in self._awaited:
            return self._replay_answer(id, data[start:end], kind == b"r")
        request = self._running.get(id)
        if request is None:
            return None
        if self.stopping and request.method == mcp.LISTEN and request.line and kind == b"r":
            return b""  # the next hub opens it again
        self.served = True
        self._forget(id)
        if request.line and kind == b"r":
            self._remember(id, request, data, start, end)
        return None

    def _remember(self, id: Id, request: SentRequest, data: bytes, start: int, end: int) -> None:
        """Note the state that a request has made, which a new hub does not have."""
        if request.method == mcp.INITIALIZE:
            result = as_object(as_object(rpc.parse(data[start:end])).get("result"))
            abilities = as_object(result.get("capabilities"))
            self._handshake, self._version = (id, request.line), result.get("protocolVersion")
            self._lists = [
                flag
                for flag, method in mcp.LIST_FLAGS.items()
                if as_object(abilities.get(method.split("/")[1])).get("listChanged") is True
            ]
            self._initialized, self._level = b"", None
            for uri in list(self._subscribed):
                self._unsubscribe(uri)
        elif request.method == mcp.SET_LEVEL:
            self._level = (id, request.line)
        elif request.method == mcp.UNSUBSCRIBE:
            self._unsubscribe(request.uri)
        elif request.method == mcp.SUBSCRIBE and request.uri not in self._subscribed and self._keep(request.line):
            self._subscribed[request.uri] = (id, request.line)

    def _cancels(self, id: Id) -> bytes | None:
        """The hub withdraws a question; or has ended a listen, which it says by a notification and an answer."""
        self.questions.pop(id, None)
        request = self._running.get(id)
        return b"" if self.stopping and request is not None and request.method == mcp.LISTEN else None

    def _acknowledges(self, params: dict[str, object]) -> bytes | None:
        id = as_id(as_object(params.get("_meta")).get(mcp.SUBSCRIPTION_KEY))
        request = self._running.get(id) if id is not None else None
        if id is None or request is None:
            return None
        request.acknowledged = True
        if id not in self._acknowledged:
            return None
        self._acknowledged.remove(id)
        meta = f'"_meta":{{{rpc.quoted(mcp.SUBSCRIPTION_KEY)}:{rpc.json_of(id)}}}'
        listened = as_object(params.get("notifications"))
        flags = [flag for flag in mcp.LIST_FLAGS if listened.get(flag) is True]
        uris = listened.get("resourceSubscriptions")
        changes = [rpc.resource_change(str(uri), "," + meta) for uri in (uris if isinstance(uris, list) else ())]
        return b"".join((*self._list_changes(flags, meta), *changes))

    def _list_changes(self, flags: list[str], params: str = "") -> list[bytes]:
        """The lines that say that these lists have changed, as far as the host is to be told now."""
        return [self._seen.on_change(flag, rpc.notification(mcp.LIST_FLAGS[flag], params)) for flag in flags]

    # --- when the connection is gone, and when there is a new one

    def on_loss(self) -> bytes:
        """The hub is lost; the lines that the host gets at once."""
        self._seen.hub_lost(announced=self.greeted and not self._acknowledged)
        said = [rpc.cancellation(id) for id in self.questions]
        for id, request in list(self._running.items()):
            is_first = not (self.stopping or (request.again and request.method != mcp.INITIALIZE))
            if not (request.line and (is_first or request.method == mcp.LISTEN)):
                said.append(self._loss(id, request))
                self._forget(id)
        for left in (self.questions, self._awaited, self._acknowledged, self.unsubscribed, self.refused):
            left.clear()
        return b"".join(said)

    def _loss(self, id: Id, request: SentRequest, *, silent: bool = False) -> bytes:
        return rpc.loss(id, harmless=is_harmless(request.method), orderly=self.stopping, silent=silent)

    @property
    def refused_host(self) -> bool:
        """True if the hub refuses this host."""
        return bool(self.refusal) and not self.served

    def give_up(self, unsent: bytes, *, silent: bool = False) -> bytes:
        """There will be no hub; the lines that the host gets. `unsent`: lines of the host that no hub has received.
        `silent`: there is one, which does not answer."""
        if self.refused_host:
            for line in unsent.split(b"\n")[:-1]:
                self.sent(line)
        running, self._running = self._running, {}
        if self.refused_host:
            return b"".join(rpc.refusal(id, self.refusal) for id in running)
        return b"".join(self._loss(id, request, silent=silent) for id, request in running.items())

    def greeting(self) -> bytes:
        """The line that a new hub must answer before it gets anything else."""
        self.served = self.stopping = False
        self.refusal = ""
        self.greeted = self._handshake is None
        if self._handshake is None:
            return b""
        id, line = self._handshake
        self._awaited[id] = mcp.INITIALIZE
        return line

    def rest(self) -> bytes:
        """The lines that follow, before the host's own; `due` has more."""
        lines = [self._initialized]
        if self._level is not None:
            self._awaited[self._level[0]] = ""
            lines.append(self._level[1])
        for id, request in self._running.items():
            lines.append(request.line)
            request.again = True
            self._seen.asked(request.method)
            if request.acknowledged:
                self._acknowledged.add(id)
        self.unsubscribed = list(self._subscribed)
        return b"".join((*lines, self.due()))

    def due(self) -> bytes:
        """Lines to send to the hub between two of the host's."""
        lines = []
        while self.unsubscribed and len(self._awaited) < AT_ONCE:
            uri = self.unsubscribed.pop()
            if uri in self._subscribed:
                id, line = self._subscribed[uri]
                self._awaited[id] = uri
                lines.append(line)
        return b"".join(lines)

    def retry(self) -> None:
        """Have `due` ask again for the refused subscriptions."""
        self.unsubscribed += self.refused
        self.refused = []

    def _replay_answer(self, id: Id, line: bytes, well: bool) -> bytes:
        uri = self._awaited.pop(id)
        if uri != mcp.INITIALIZE:
            if not well and uri in self._subscribed:  # its server may only be starting
                self.refused.append(uri)
            return rpc.resource_change(uri) if uri else b""
        answer = as_object(rpc.parse(line))
        self.greeted = True
        if not well:
            self.refusal = _error(answer)
        elif self._version is not None and as_object(answer.get("result")).get("protocolVersion") != self._version:
            self.refusal = f"it does not speak revision {self._version} of MCP any more"
        elif self._initialized:
            return b"".join(self._list_changes(self._lists))
        return b""


def is_harmless(method: str) -> bool:
    """True if a request may be sent twice."""
    return method in READS or method in SETTINGS or method.endswith("/list")


def _error(message: object) -> str:
    return _text(as_object(as_object(message).get("error")).get("message")) or "it does not say why"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
