"""Which session serves which host: one in common, or one for each.

`sharing` is what is configured, `pooled_session` one session from open to end, `pool` who has which, `connector` and
`pacing` how they come about and how soon, `legacy_sessions` those in the handshake era with servers of both eras;
`selector` finds a call its session, `calls` is what it does there.
"""
