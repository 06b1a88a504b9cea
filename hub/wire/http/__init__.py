"""HTTP as far as it is bytes: heads, chunked bodies, server-sent events, the headers of MCP. No I/O.

- `request_parser`  request heads and chunked bodies, checked before and after h11.
- `sse`             server-sent events, read and written.
- `mirror_headers`  what MCP repeats in headers: names, and arguments of tools.
"""
