"""How servers are reached: `open` chooses, `stdio` and `http` do, `negotiation` agrees on an era, `peer_session` is a
session over one stream. Nothing here knows who shares a session. A WebSocket transport would be one more package.
"""
