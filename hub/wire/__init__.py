"""The protocol's words and bytes: parsing, limits, translation between revisions. No I/O, no clock, no state.

The bottom of the house: imports nothing of ours, and all parsing of peers' bytes is here. Read in this order:

- `vocabulary`    methods, keys, codes: the only place with spec strings. `mcp` has them too, and revisions.
- `byte_checks`   checks on the bytes of a message: UTF-8, depth, line ends.
- `excerpt_and_read_large_results`  what large messages need not be parsed for.
- `jsonrpc`       decode and encode one message; params and results stay raw bytes, opened one level at a time.
- `total_item_limit`, `level_item_limit`  limits on all levels of a value, on one; `salvage_ids`: ids in broken JSON.
- `capabilities`, `modern_metadata`  how hosts and servers declare themselves before and since 2026-07-28.
- `upstream_snapshot`  what one server lists and declares; `hub_chains`: the hubs behind a hub, announced.
- `trace_context`  by which traces go on from one program to the next.
- `questions`, `results_for_hosts`, `errors_for_hosts`  questions, results and errors, translated between revisions.
- `http`          heads, server-sent events, headers of MCP.
- `uri_hierarchy`, `normalize_uri`, `printable`  parents of URIs, their normal form; what is shown as text.

An accepted message has one reading and no line end; values not used for routing keep their bytes; a peer's mistake is a
`RemoteProtocolError` (or a subclass) that says what to answer, never another exception.
"""
