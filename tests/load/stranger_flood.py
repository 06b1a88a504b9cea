"""A crowd of sockets without a token: each connects, sends a request, reads the answer to its end, and comes again.

`python stranger_flood.py PORT SOCKETS KIND`, until its standard input ends; then it prints how many were answered.
"""

import selectors
import socket
import sys

REQUESTS = {
    "post": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "livez": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "pipelined": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100,
    "metadata": b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "silent": b"",
    "dripping": b"P",
}


class Crowd:
    """`most` sockets, each in a loop of its own."""

    def __init__(self, port: int, most: int, request: bytes) -> None:
        self._port = port
        self._request = request
        self._selector = selectors.DefaultSelector()
        self.answered = 0
        for _ in range(most):
            self._connect()

    def _connect(self) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", self._port))
        self._selector.register(connection, selectors.EVENT_WRITE)

    def _stirred(self, connection: socket.socket, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                connection.send(self._request)
                self._selector.modify(connection, selectors.EVENT_READ)
                return
            data = connection.recv(65536)
        except OSError:
            data = b""
        if data:
            self.answered += 1
            return
        self._selector.unregister(connection)
        connection.close()
        self._connect()

    def run(self) -> None:
        """Go on until standard input ends."""
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, events in self._selector.select():
                if key.fileobj is sys.stdin:
                    return
                assert isinstance(key.fileobj, socket.socket)
                self._stirred(key.fileobj, events)


if __name__ == "__main__":
    crowd = Crowd(int(sys.argv[1]), int(sys.argv[2]), REQUESTS[sys.argv[3]])
    crowd.run()
    print(crowd.answered)  # noqa: T201
