"""The daemon: one hub as a process, and its doors to the outside.

`serve` is the way in, with the exit codes: it prepares the start (`served_configuration`,
`make_keys_store_sessions_audit`), and `daemon` runs and drains the hub with its listeners. `reload` says what becomes
of changed files, `bind_unix` has the unix sockets and the lock, `bind_http` and `http_listener` say where HTTP is
served, `http_routes` is the golden list of paths there (one row each), `api` what its user may ask of it.
`assemble_sign_ins` has all of sign-ins at upstreams, made when it is needed, `sign_in_requests` what the user asks of
that, `decision_requests` what people decide of calls and of changed definitions, `live` what whoever watches it is
told, `metrics` what Prometheus is, `keys_of_people` what people keep for themselves, `dashboard` what pages in a
browser show. The process: `systemd`, `logs`, `loop_stalls` (of the event loop), `process_memory`, `banner`.
"""
