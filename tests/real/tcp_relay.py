"""A relay in front of a port that records every byte and interprets none."""

import contextlib
import socket
import threading
from typing import NamedTuple

CHUNK_BYTES = 1 << 16


class Piece(NamedTuple):
    """Some bytes of one connection; no bytes: that direction has ended."""

    connection: int
    from_client: bool
    data: bytes


class TcpRelay:
    """Listens at once, and connects to `port` (to be set before the first connection) for each accepted connection.

    `pieces` holds all bytes of all connections in one order: a request stands before its answer, since each piece is
    recorded before it is passed on.
    """

    def __init__(self, port: int | None = None) -> None:
        self.port = port
        self.pieces: list[Piece] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stop(self) -> None:
        """Close everything."""
        _end(self._listener)
        self._threads[0].join()
        self._listener.close()
        for end in list(self._open):
            _end(end)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # `stop`
            while True:
                client, _ = self._listener.accept()
                self._open.add(client)
                self._threads.append(
                    threading.Thread(target=self._carry, args=(client, len(self._threads)), daemon=True)
                )
                self._threads[-1].start()

    def _carry(self, client: socket.socket, number: int) -> None:
        """Relay one connection until both directions have ended."""
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            self._open.add(server)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self._pump, args=(server, client, number, False), daemon=True)
            back.start()
            self._pump(client, server, number, True)
            back.join()
            self._open.discard(server)
        self._open.discard(client)

    def _pump(self, source: socket.socket, target: socket.socket, number: int, from_client: bool) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                self.pieces.append(Piece(number, from_client, data))
                target.sendall(data)
            self.pieces.append(Piece(number, from_client, b""))
            target.shutdown(socket.SHUT_WR)
        except OSError:  # one side is gone: so is the other
            _end(source)
            _end(target)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
