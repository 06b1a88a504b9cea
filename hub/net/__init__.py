"""Sockets and HTTP/1.1; nothing of MCP.

`acceptor` is the one loop that accepts, `unix` the unix sockets and the daemon's lock, `peer_credentials` who is at the
other end. `http_server` serves connections (`connection_limits`: who has to go when too many come), `http_connection`
one of them, `http_message` is a request and its answer.
"""
