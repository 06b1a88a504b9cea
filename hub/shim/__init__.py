"""`hubd connect`: a host's stdio and the daemon's unix socket. It imports next to nothing, since every host starts one.

`main` is the way in, `reconnecting_pump` the loop, `line_buffers` what it holds of either direction; `hub_liveness`
finds the next hub, and whether a silent one hangs, `start_daemon` connects to a daemon that may have to be started.
`replay` has what a new daemon is told of the conversation, `list_digests` which lists the host is told that they
changed, `mini_jsonrpc` the JSON-RPC of both.
"""
