"""Sockets and HTTP/1.1; nothing of MCP.

`acceptor` accepts connections for every listener. `look_after_connections` serves HTTP: a connection is one of
`admit_connection` until it has passed the guard, then an `http_connection`. `open_connections` has all of them, and
decides which one is closed when there are too many. `http_request` and `response_writer` have requests and responses;
`access_lifetime` for how long somebody is let in.
"""
