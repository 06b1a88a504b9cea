"""What goes over the wires: the words of the protocol and the bytes they are said in. No I/O, no clock, no state.

The bottom of the house: nothing of ours is imported here, and everything that parses what a peer sent is here. Read in
this order:

- `mcp`        the vocabulary: revisions, methods, keys, codes; `Snapshot`. The only place with spec strings.
- `clean`      what a message may contain, decided on its bytes.
- `crowds`     what has too much in it to be looked through; `opening`: what has too much to be opened item by item;
  `salvage`: whose a message would have been that is not JSON.
- `printable`  texts of peers as a terminal may be given them.
- `jsonrpc`    one message in, one message out; params and results stay raw bytes, opened one level at a time.
- `http`       server-sent events.
- `headers`    what MCP repeats in headers, arguments of tools among it.
- `head`       one HTTP/1.1 head, checked before and after h11 reads it.
- `legacy`     the handshake of 2024-11-05 to 2025-11-25, a table.
- `modern`     the per-request metadata of 2026-07-28, read and stamped.
- `translate`  results, errors and definitions between revisions.
- `parts`      which resources are parts of others.
- `progress`   values that rise.
- `loops`      hubs behind hubs, so that none is behind itself.
- `questions`  what upstreams ask of hosts, and the answers, between revisions; `abilities` (what can be asked at all),
               `forms` and `sampling` below it.

What always holds: an accepted message has one reading and no line end; values we do not route on keep their bytes; a
peer's mistake is a `RemoteProtocolError` (or a subclass) that says what to answer, never another exception.
"""
