"""Sockets and HTTP/1.1; nothing of MCP.

`acceptor` accepts connections for every listener; `unix` has the unix sockets and the daemon's lock. `http_server`
serves HTTP connections (`connection_limits` decides which one is closed when there are too many), `http_connection`
serves one over the state of all (`connection_limits`), `http_message` has requests and responses.
"""
