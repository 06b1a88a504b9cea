"""Sessions of one upstream: which of them serves which host.

`sharing` (who shares a session, as configured), `pooled_session` (one session from opening to end), `log_level` (what
it is told), `pool` (which host has which session), `session_opener` and `reopening_pace` (how sessions are opened,
and how soon again), `find_session_for_host` (the session of a call, one of the handshake with servers of both eras as
well), `calls` (makes the call over it).
"""
