"""Secrets: `store` keeps those of `hubd secret`, in the system's `keyring` (asked by `keyring_child`, a process of its
own) or in the file that `file` reads; `uses` finds the servers that use one, and `detection` finds secrets in settings.
`state_file` reads files of secrets, that of the tokens of hosts too.

What always holds: no secret is shown unasked, and whoever asks a keyring waits a minute at most.
"""
