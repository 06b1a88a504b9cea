"""Secrets: `store` keeps those of `hubd secret`, in the system's `keyring` (asked by `keyring_child`, a process of its
own) or in a file (`kept_secrets`, one of the `private_state_files`, as the tokens of hosts are); `uses` finds the
servers that use one, `detection` finds secrets in settings, and `masks` stand in their place. `fill_secret_values` puts
values where settings and fixed arguments of profiles name them. `run_child` runs a program that prints one.

What always holds: no secret is shown unasked, and whoever asks a keyring waits a minute at most.
"""
