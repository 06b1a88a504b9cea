"""What goes over the wires: the words of the protocol and the bytes they are said in. No I/O, no clock, no state.

The bottom of the house: nothing of ours is imported here, and everything that parses what a peer sent is here. Read in
this order:

- `mcp`           the vocabulary: revisions, methods, keys, codes; `Snapshot`. The only place with spec strings.
- `sanitize`      what a message may contain, decided on its bytes: UTF-8, depth, line ends.
- `jsonrpc`       one message in, one message out; params and results stay raw bytes, opened one level at a time.
- `value_limits`  what has too much in it to be looked through; `open_limits`: to be opened item by item; `salvage`: the
                  ids in a message that is not JSON.
- `sse`, `http_head`, `mcp_headers`  server-sent events; heads, checked before and after h11; what MCP repeats in them.
- `handshake`, `request_meta`  how hosts say what they are: until 2025-11-25, and since 2026-07-28; `translate` between.
- `questions`     what upstreams ask of hosts, between revisions; `capabilities`, `elicitation_forms`, `sampling` below.
- `request_names`, `uri_parents`, `page_urls`, `hub_loops`, `progress`, `printable`  one small rule each.

What always holds: an accepted message has one reading and no line end; values we do not route on keep their bytes; a
peer's mistake is a `RemoteProtocolError` (or a subclass) that says what to answer, never another exception.
"""
