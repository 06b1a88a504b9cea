"""Outbox: bytes to a peer, written without waiting, so that one that stops reading stops nobody else."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import accumulate
from typing import Final

import trio
from trio.lowlevel import wait_writable

from hub.link.channel import ChannelClosed, OutboxFull, descriptor
from hub.link.memory_budget import FREE_BYTES, NO_LIMIT, Account, Budget
from hub.link.sync_primitives import loop_turns

BATCH_BYTES: Final = 64 << 10
"""A piece that is written by itself; shorter ones that wait are written together."""
MAX_PIECES: Final = 1024
"""The pieces that the kernel takes at once."""
STEP_BYTES: Final = 256 << 10
"""Bytes that are written before others have their turn: of a megabyte they would notice."""
Piece = bytes | memoryview


def rest_of(pieces: Iterable[Piece], sent: int) -> list[Piece]:
    """The pieces without their first `sent` bytes."""
    rest: list[Piece] = []
    for piece in pieces:
        if sent < len(piece):
            rest.append(memoryview(piece)[sent:] if sent else piece)
        sent = max(0, sent - len(piece))
    return rest


def cut_to_step(pieces: Sequence[Piece]) -> list[Piece]:
    """As much of the pieces as is written in one step."""
    found: list[Piece] = []
    room = STEP_BYTES
    for piece in pieces[:MAX_PIECES]:
        found.append(piece if len(piece) <= room else memoryview(piece)[:room])
        room -= len(piece)
        if room <= 0:
            break
    return found


@dataclass(eq=False, repr=False)
class Outbox:
    """Queue of bytes to one peer, in order and never interleaved.

    `put` writes at once what the kernel takes, `STEP_BYTES` at most, without a checkpoint; a task of `nursery` writes
    the rest. So cancelling a call never cancels a write, and never leaves half a message. The queue is bounded by
    bytes: when it is full, `put` refuses whole messages. A peer that takes nothing for `stall_s` is given up:
    `on_broken` is called once, as it is when the peer is gone.

    A stream without a descriptor (a memory stream in a test) is always written by the task. With `joins` only the first
    small message of a turn of the loop is written at once; the others of that turn leave in one piece at its end.

    Queued bytes beyond `FREE_BYTES` are held on `account`; a large message is refused before any of it is written.
    """

    _stream: trio.abc.SendStream
    _nursery: trio.Nursery
    _on_broken: Callable[[], None]
    _: KW_ONLY
    limit_bytes: int = 16 << 20
    stall_s: float = 30.0
    joins: bool = False
    account: Account = field(default_factory=lambda: Budget(NO_LIMIT).account())

    def __post_init__(self) -> None:
        self._held = 0
        """Bytes of the queue that are held on the account."""
        self._fd = descriptor(self._stream)
        self._queue: list[bytes | memoryview] = []
        self._drained: trio.Event | None = None
        """Set when what is queued is written, or dropped; None: nothing is queued but for the end of the turn."""
        self._turns = loop_turns() if self.joins and self._fd is not None else None
        self._wrote_in = -1
        """Number of the turn of the loop in which a message was written last."""
        self._is_held = False
        """True if the queue leaves at the end of this turn."""
        self._lost_bytes = 0
        self.queued_bytes = 0
        self.accepted_bytes = 0
        """Bytes taken by `put` so far."""
        self.broken = False
        self._is_gone = False
        """A write has found that the peer is gone, and `_give_up` follows."""

    @property
    def delivered_bytes(self) -> int:
        """Accepted bytes that the kernel has taken. Final once the outbox is broken or closed."""
        return self.accepted_bytes - self.queued_bytes - self._lost_bytes

    def put(self, data: bytes | memoryview, *more: bytes | memoryview) -> None:
        """Send `data` and what follows it, which must be whole messages. Large pieces are never copied.

        Raises:
            ChannelClosed: the peer is gone.
            OutboxFull: the limit would be passed, or there is no room for it; nothing was written or queued.
        """
        size = len(data) + sum(map(len, more)) if more else len(data)
        turns = self._turns
        if turns is not None and self._drained is None:
            if self._wrote_in != turns.number:
                self._wrote_in = turns.number
            elif self.queued_bytes + size <= FREE_BYTES and not self.broken:
                self._queue += (data, *more)
                self.queued_bytes += size
                self.accepted_bytes += size
                if not self._is_held:
                    self._is_held = True
                    turns.at_end.append(self._end_turn)
                return
            elif self._is_held:
                self._write_held()
        if self.broken:
            raise ChannelClosed
        if self._drained is not None:
            if self.queued_bytes + size > self.limit_bytes or not self._has_room(size):
                raise OutboxFull
            self._queue += (data, *more)
            self.queued_bytes += size
            self.accepted_bytes += size
            return
        if size > FREE_BYTES and not self._has_room(size):
            raise OutboxFull
        sent = self._write(data, *more)
        self.accepted_bytes += size
        if sent == size:
            if self._held:
                self._give_back()
            return
        self.queued_bytes = size - sent
        self._queue += rest_of((data, *more), sent)
        if self._held:
            self._give_back()
        self._drained = trio.Event()
        self._nursery.start_soon(self._drain)

    async def flush(self) -> None:
        """Wait until the kernel has taken everything, or the peer is given up."""
        if self._is_held:
            self._write_held()
        if self._drained is not None:
            await self._drained.wait()

    def close(self) -> None:
        """Refuse everything from now on, and drop what is queued."""
        if self._is_held:
            self._write_held()
        self._give_up(notify=False)

    def _write_held(self) -> None:
        """Write what is held until the end of the turn; what the kernel does not take is drained."""
        if self._try_held():
            self._go_on()

    def _end_turn(self) -> None:
        if self._is_held and self._turns is not None and self._try_held():
            self._turns.wake(self._go_on)

    def _try_held(self) -> bool:
        """Write what is held, without waking anybody; True: `_go_on` must follow."""
        assert self._fd is not None, "only what has a descriptor is held"
        self._is_held = False
        data = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
        self._queue.clear()
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._queue.append(data)
            self._is_gone = True
            return True
        self.queued_bytes -= sent
        if not self.queued_bytes:
            return False
        self._queue.append(memoryview(data)[sent:])
        self._drained = trio.Event()
        return True

    def _go_on(self) -> None:
        """Drain what could not be written at the end of a turn, or give up a peer that is gone."""
        if self._is_gone:
            self._give_up()
        elif not self.broken:
            try:
                self._nursery.start_soon(self._drain)
            except RuntimeError:  # it has ended meanwhile, and the peer's owner with it
                self._give_up(notify=False)

    def _has_room(self, size: int) -> bool:
        """Hold the queue and `size` more bytes on the account; False: there is no room."""
        more = self.queued_bytes + size - FREE_BYTES - self._held
        if more > 0:
            if not self.account.take(more, trio.current_time()):
                return False
            self._held += more
        return True

    def _give_back(self) -> None:
        """Give back what the account holds beyond the present queue."""
        over = self._held - max(0, self.queued_bytes - FREE_BYTES)
        if over:
            self._held -= over
            self.account.give(over)

    def _write(self, data: bytes | memoryview, *more: bytes | memoryview) -> int:
        if self._fd is None:
            return 0
        try:
            if not more and len(data) <= STEP_BYTES:
                return os.write(self._fd, data)
            return os.writev(self._fd, cut_to_step((data, *more)))
        except BlockingIOError:
            return 0
        except OSError:
            self._give_up()
            raise ChannelClosed from None

    async def _drain(self) -> None:
        reads = self.account.reads
        try:
            reads.start_wait(trio.current_time())
            while self._queue:
                await self._send(memoryview(self._next_batch()))
                self._give_back()
        except (ChannelClosed, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            self._give_up()
        except trio.Cancelled:
            self._give_up(notify=False)  # half a message may have left: nothing may follow it
            raise
        finally:
            reads.end_wait()
            drained, self._drained = self._drained, None
            if drained is not None:
                drained.set()

    def _next_batch(self) -> bytes | memoryview:
        """The next piece of the queue if it is large, else some before the next large one, joined."""
        sizes = accumulate(len(piece) if len(piece) < BATCH_BYTES else STEP_BYTES for piece in self._queue)
        short = next((at for at, size in enumerate(sizes) if size >= STEP_BYTES), len(self._queue))
        batch = self._queue[: short or 1]
        del self._queue[: short or 1]
        return batch[0] if len(batch) == 1 else b"".join(batch)

    async def _send(self, batch: memoryview) -> None:
        if self._fd is None:
            with trio.fail_after(self.stall_s):
                await self._stream.send_all(batch)
            if not self.broken:
                self.queued_bytes -= len(batch)
            return
        while batch:
            with trio.fail_after(self.stall_s):
                await wait_writable(self._fd)
            if self.broken:
                raise ChannelClosed
            sent = self._write(batch)
            self.queued_bytes -= sent
            batch = batch[sent:]
            self.account.reads.on_moved(sent, trio.current_time())

    def _give_up(self, *, notify: bool = True) -> None:
        if self.broken:
            return
        self.broken = True
        self._queue.clear()
        self._lost_bytes = self.queued_bytes
        self.queued_bytes = 0
        self._give_back()
        if self._drained is not None:
            self._drained.set()
        on_broken, self._on_broken = self._on_broken, lambda: None  # its owner refers to this outbox: a cycle
        if notify:
            on_broken()
