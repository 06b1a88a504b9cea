"""Transports: `choose_transport` starts a session over one, `stdio` and `http` are packages, `negotiation` has eras.

`session_base` is what all sessions share, `stamp_for_era` what their requests carry, `shared_stream_session` what those
over one stream do. Nothing here knows who shares a session. A WebSocket transport would be a third package.
"""
