"""Audit: takes records in the loop, and has a thread describe, chain and write them, every 100 ms or 128 KiB.

    a stage, or `note` -> `records` -> (100 ms, 128 KiB, or somebody waits) -> the thread -> the file

A record counts as accepted once it is among `records`. If the file cannot be written, what is described is kept for the
next try, up to 4 MiB; what comes beyond that is dropped and counted, and a `gap` says so once there is room. A call
whose record is required waits for the write, and is refused if that fails.

Times are measured once, by `CLOCK`, by whoever is there when it happens: the intent has when its call began, and the
end of a call is the tuple `End`. The thread makes times of day of them, so a clock that is set while calls run bends
the `t` of records and nothing else.

The thread sleeps while there are no records. Each variable is written by one side: by the loop, or, where it says so,
by the thread.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from math import inf
from threading import Lock, Thread
from typing import Final

import trio
from msgspec import UNSET, Struct, UnsetType

from config.settings import AuditConfig
from hub.bridge.sealed_request_state import NO_ROUND, FirstRound
from hub.control.answers import AuditStatus
from hub.link.sync_primitives import Promise
from hub.rules.audit.files import HEAD_EVERY, AuditFiles
from hub.rules.audit.lines import Draft, draft
from hub.rules.audit.records import CLOCK, END, FLUSH, NOTE, Begin, Beginning, Describe, End, Note
from hub.telemetry.operation_record import Ended
from hub.wire import mcp

log = logging.getLogger("hubd.audit")
FLUSH_S: Final = 0.1
FLUSH_BYTES: Final = 128 << 10
"""While the thread describes them it holds the interpreter's lock: one longer pause is felt by fewer calls than many
short ones."""
MAX_BEHIND: Final = 4 << 20
RETRY_S: Final = 5.0
SILENCE_S: Final = 1.0
"""Time without records after which the last one is kept beside the files."""
REFUSE_S: Final = 1.0
"""Seconds after a failure for which calls that need a record are refused without another try."""
CLOSE_S: Final = 5.0
"""Limit of the last write, if the disk hangs."""
BLOCK_BYTES: Final = 64
"""A key is made as long as a block of the hash, which has digested it before there are calls."""
RECORD_BYTES: Final = 340
"""Size that a record counts as."""
SIGN_IN: Final = "sign-in"
"""In place of a method: calls of the hub's own tool for signing in at an upstream."""
READS: Final = frozenset({mcp.RESOURCES_READ, mcp.PROMPTS_GET})
Record = Begin | End | Note


class Written(Struct, frozen=True):
    """The outcome of the last write."""

    head: str = ""
    number: int = 0
    """The hash and the number of the last record."""
    problem: str = ""
    """The reason why it failed; "": it did not."""
    at: float = -inf
    """The time of `CLOCK`."""
    behind: int = 0
    """Bytes that wait for the next try."""


class Audit:
    """The audit log of one hub. Between `start` and `close` there is a thread. Without `files` nothing is written.

    A stage adds what has begun to `records` and `open`, and takes `RECORD_BYTES` from `room`; if `room` is below 0, or
    the thread is not `gathering`, it calls `press`. `hear` does so with what has ended. That is all that a call costs
    in the loop. `key` is that of digests; `mask` takes secrets out of texts.
    """

    def __init__(
        self,
        config: AuditConfig,
        files: AuditFiles | None = None,
        *,
        key: bytes = b"",
        wall: Callable[[], float] = float,
        mask: Callable[[str], str] = str,
    ) -> None:
        self.doors: set[str] = set()
        """Methods of which records are made."""
        self.required = False
        """A call that may change something is not sent before its `begin` is written."""
        self.is_stopping = False
        """Calls that are cancelled now are cut off by the hub."""
        self.records: deque[Record] = deque()
        self.room = 0
        """Bytes for which there is room in `records` before `press` has to be called."""
        self.held = 0
        """Bytes of arguments that were held by `records`, since the beginning."""
        self.open: dict[int, Beginning | float] = {}
        """Calls that run, by their refs: what their `end` is to say besides, or when they began, if a `begin` says
        that."""
        self.digest = sha256(key.ljust(BLOCK_BYTES, b"\0"))
        """To be copied: digests have a key, so that short values cannot be guessed, and are cut, so that nobody makes
        them longer. SHA-256 takes half the time of BLAKE2 where the processor helps."""
        self.find_first: Callable[[str], FirstRound] = lambda state: NO_ROUND
        """Finds the first round in a state that a host has brought."""
        self.generation = 1
        """The configuration in effect is the how manieth."""
        self.gathering = False
        """The thread will look at `records` by itself. Set by the loop, cleared by the thread."""
        self._files = files
        self._wall = wall
        self._describe = Describe(mask)
        self._lost = 0
        """Records that had no room."""
        self._is_closing = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: Thread | None = None
        self._wake, self._hurry = Lock(), Lock()
        """Released to wake the thread, and to have it write at once."""
        self._wake.acquire()
        self._hurry.acquire()
        # Written by the thread:
        self._written = Written()
        self._unwritten: list[Draft] = []
        self._told = self._dropped = 0
        """Lost records that gaps tell of; and those that waited and had no room any more."""
        self.adjust(config)

    def start(self) -> None:
        """Begin to write. To be called in the loop."""
        self._token = trio.lowlevel.current_trio_token()
        if self.doors and self._thread is None:
            self._thread = Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    def adjust(self, config: AuditConfig) -> None:
        """Take over other settings."""
        is_on, was_on = config.enabled and self._files is not None, bool(self.doors)
        if was_on and not is_on:  # before there is no door: then the thread closes the files once all is written
            self._add((NOTE, "close", {"why": "switched off"}, CLOCK(), None))
        doors = {mcp.TOOLS_CALL, SIGN_IN, *(READS if config.reads else ())} if is_on else set[str]()
        self.doors.update(doors)
        self.doors.intersection_update(doors)  # never empty meanwhile: the thread looks, too
        self.required = is_on and config.required
        if self._files is not None:
            self._files.adjust(config)
        if is_on and self._token is not None:
            self.start()
        elif was_on and not is_on:
            _release(self._wake)
            _release(self._hurry)

    def follow_rounds(self, find_first: Callable[[str], FirstRound]) -> None:
        """Find the first round of what a host goes on with by the state that it brings."""
        self.find_first = find_first

    # --- in the loop --------------------------------------------------------------------------------------------------

    def note(self, kind: str, /, **members: object) -> None:
        """Note what people or the hub decided, as members of JSON: `refuse`, `ask`, `approve`, `deny`, `revoke`,
        `hook`, `pin`, `relay`, `config`, `access`. Texts are cut, and secrets of the configuration masked. A `hook`
        that refuses says `decision="deny"`; what belongs to a call says `ref=intent.ref`. Never blocks or raises."""
        if self.doors:
            if kind == "config":
                self.generation += 1
                members = {"gen": self.generation, **members}
            self._add((NOTE, kind, members, CLOCK(), None))

    def _add(self, record: Record) -> None:
        self.records.append(record)
        self.room -= RECORD_BYTES
        if self.room < 0 or not self.gathering:
            self.press()

    def press(self) -> None:
        """See to it that `records` are written: soon, or at once if they are many. If there is no room for any more,
        the last one is dropped."""
        if not self.gathering:
            self.gathering = True
            self.room = FLUSH_BYTES
            self.held = self._describe.released  # the thread has taken all, so counts can begin anew
            _release(self._wake)
        elif (
            len(self.records) * RECORD_BYTES + self.held - self._describe.released + self._written.behind <= MAX_BEHIND
        ):
            self.room = FLUSH_BYTES
            _release(self._hurry)
        else:
            with suppress(IndexError):  # the thread has just taken it
                _fulfil([self.records.pop()], False)
                self._lost += 1
            self.room = -1  # so that this is called for the next one, too

    async def write(self, begin: Begin) -> bool:
        """Have a `begin` written at once; True: it is. Cancellation: it may be."""
        waiter, last = begin[-1], self._written
        if self._thread is None or waiter is None or (last.problem and CLOCK() - last.at < REFUSE_S):
            return False
        self._add(begin)
        _release(self._hurry)
        return await waiter.wait()

    async def flush(self) -> bool:
        """Have all records written that there are; True: they are. Cancellation: they may be."""
        if self._thread is None:
            return False
        waiter: Promise[bool] = Promise()
        self.records.append((NOTE, FLUSH, {}, CLOCK(), waiter))  # whether there is room or not
        _release(self._wake)
        _release(self._hurry)
        return await waiter.wait()

    def hear(self, ended: Ended) -> None:
        """An operation is over. Never blocks or raises."""
        since = self.open.pop(ended.ref, None)
        if since is None:
            return
        self.records.append((END, ended, since, self.is_stopping, None))
        if type(since) is Beginning and since.arguments is not None:
            self.held += since.size
            self.room -= since.size
        self.room -= RECORD_BYTES
        if self.room < 0 or not self.gathering:
            self.press()

    def stop(self) -> None:
        """Take calls that are cancelled from now on for cut off by the hub."""
        self.is_stopping = True

    def status(self) -> AuditStatus | UnsetType:
        """How the log is; UNSET: there is none."""
        last, lost = self._written, self._lost + self._dropped
        if not self.doors or self._files is None:
            return UNSET
        return AuditStatus(
            records=last.number,
            head=last.head,
            lost=lost,
            problem=last.problem or None,
            required=self.required,
            removed=self._files.has_losses,
            short=self._files.is_short,
            log=str(self._files.path),
        )

    def close(self) -> None:
        """Write all that is left, and close the log. Blocks; never raises. Nothing is noted any more."""
        if self._thread is None:
            return
        if self.doors:
            self.records.append((NOTE, "close", {"why": "the hub ends"}, CLOCK(), None))
        self._is_closing = True
        self.doors.clear()
        _release(self._wake)
        _release(self._hurry)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            log.error("the audit log hangs, and the last records are lost: %d", len(self.records))
        self._thread = None

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Write records as they come, until the log is closed."""
        assert self._files is not None and self._token is not None, "it was started"  # noqa: PT018
        is_first = True
        while not (self._is_closing and not self.records):
            if not is_first and not self._is_closing:
                limit = RETRY_S if self._written.problem else SILENCE_S if self._files.is_ahead else -1
                if not self._wake.acquire(timeout=limit) and self._files.is_ahead:
                    self._files.save_head()
                self._hurry.acquire(timeout=FLUSH_S)
            is_first = False
            self.gathering = False  # from now on whoever adds a record says so
            records: list[Record] = []
            with suppress(IndexError):  # there are no more
                records.extend(iter(self.records.popleft, None))
            is_written = False
            try:
                is_written = self._write(self._files, records)
            except Exception:  # a fault of ours stops no call, and no later record
                log.exception("records of the audit log are lost because of a fault: %d", len(records))
            if waiting := [record for record in records if record[-1] is not None]:
                with suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(_fulfil, waiting, is_written)
        self._files.close()
        log.info("audit: the last record is %d, with the hash %s", self._written.number, self._written.head)

    def _write(self, files: AuditFiles, records: Sequence[Record]) -> bool:
        """Describe and write records, behind those that wait; False: they cannot be written."""
        offset, stamps, before = self._wall() - CLOCK(), self._describe.stamps, self._written
        lost = self._lost + self._dropped - self._told
        gaps = [draft(stamps.at(self._wall()), {"k": "gap", "lost": lost})] if lost else []
        new = self._describe.draft(records, offset)
        try:
            if new or gaps or self._unwritten or (self.doors and not files.is_open):
                files.append([*self._unwritten, *gaps, *new])
            elif before.problem:  # nobody knows before there is something to write
                return False
            if not (self.doors or self.records or self._is_closing):  # it was switched off
                files.close()
        except OSError as error:
            waiting = [*self._unwritten, *(each for each in new if not each[2])]
            self._unwritten = waiting[: MAX_BEHIND // RECORD_BYTES]
            self._dropped += len(waiting) - len(self._unwritten)
            name, behind = os.fsdecode(error.filename or "its file"), sum(len(each[1]) for each in self._unwritten)
            problem = f"the audit log cannot be written: {name}: {error.strerror}"
            self._written = Written(files.head, files.number, problem, CLOCK(), behind)
            if not before.problem:
                log.warning("%s; records wait, and beyond %d MiB they are lost", problem, MAX_BEHIND >> 20)
            return False
        self._unwritten, self._told = [], self._told + lost
        self._written = Written(files.head, files.number)
        if before.problem:
            log.info("the audit log is written again")
        if files.number // HEAD_EVERY > before.number // HEAD_EVERY:
            log.info("audit: record %d has the hash %s", files.number, files.head)
        return True


def _release(lock: Lock) -> None:
    """Release a lock that only this side releases."""
    if lock.locked():
        lock.release()


def _fulfil(records: Sequence[Record], is_written: bool) -> None:
    for record in records:
        if (waiter := record[-1]) is not None:
            waiter.fulfil(is_written)
