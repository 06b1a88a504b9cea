"""The private socket of the command line.

`methods` is the table of requests; `answers` has the structs of the answers, `sign_in_messages` those of sign-ins with
their params, `approval_messages` those of approvals, `pin_messages` those of pins, `call_messages` those of operations
and of what is counted of them, `overview_messages` those of everything at a glance. `server` runs in the daemon and has
`hub.daemon.api` carry the methods out; `client` runs in commands and raises `client_errors`, `hung_hub` finds out
whether a silent hub hangs; `interruptible_wait` has the clock and the waits of commands.
"""
