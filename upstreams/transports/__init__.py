"""Transports: `run_session` chooses one, `stdio` and `http` are packages, `negotiation` agrees on an era.

`peer_session` is what sessions over one stream share, `running_calls` and `keep_alive` what all sessions do. Nothing
here knows who shares a session. A WebSocket transport would be a third package.
"""
