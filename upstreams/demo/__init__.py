"""The embedded demo server: `python -I -m upstreams.demo`, MCP over standard input and output, in both eras.

What a newcomer sees before anything is configured, and a small upstream that has a bit of everything. In reading
order: `content` (what it offers), `server` (a line in, lines out; pure), `__main__` (the loop around it).

What always holds: one process serves one client; modern requests are told by their `_meta` and need no handshake, so
both eras may even take turns.
"""
