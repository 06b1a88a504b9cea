"""The daemon: one hub as a process, and its doors to the outside.

`serve` starts it, drains it and stops it; `stdio_host` is one host on standard input and output instead. `setup` and
`options` say what a hub is given, `reload` what becomes of changed files, `http_listener` where HTTP is served,
`http_routes` which pages are there beside MCP (one row each), `api` what its user may ask of it. The process: `process`
(hardening, orphans, a watchdog of the loop), `signals`, `systemd`, `logs`, `banner`, `root_warning`, `memory_trim`,
`foreign_listeners`.
"""
