"""Transports: `run_session` chooses one, `stdio` and `http` are packages, `negotiation` agrees on an era.

`session_frame` is what all sessions share, `peer_session` what those over one stream do. Nothing here knows who shares
a session. A WebSocket transport would be a third package.
"""
