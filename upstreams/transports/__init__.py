"""Transports: `choose_transport` starts a session over one, `stdio` and `http` are packages, `negotiation` has eras.

`session_base` is what all sessions share, `peer_session` what those over one stream do. Nothing here knows who shares
a session. A WebSocket transport would be a third package.
"""
