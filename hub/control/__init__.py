"""The private socket of the command line.

`methods` is the table of requests; `answers` has the structs of the answers, `sign_ins` those of sign-ins with their
params. `server` runs in the daemon and has `hub.daemon.api` carry the methods out; `client` runs in commands and raises
`errors`; `hub_process` finds out whether a silent hub hangs, `waits` has the clock and the waits of commands.
"""
