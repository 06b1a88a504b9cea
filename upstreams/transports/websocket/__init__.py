"""Servers reached over WebSocket, which MCP's specification does not know and bridges to browsers offer: `session`
speaks to one, `handshake` opens the connection, `channel` has its messages. By wsproto (extra `ws`), on our streams.
Only outward: nothing dials in and becomes an upstream.
"""
