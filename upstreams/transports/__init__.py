"""Transports: `choose_transport` starts a session over one; `stdio`, `http` and `websocket` are packages.

`negotiation` has eras, `session_base` is what all sessions share, `request_params_for_era` what their requests carry,
`shared_stream_session` what those over one stream do, `probing_session` what those do that find out the era over it,
`connect_to_url` the way to those that have a URL. Nothing here knows who shares a session.
"""
