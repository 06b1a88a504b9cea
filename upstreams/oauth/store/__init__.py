"""The records of sign-ins, sealed, in one folder that processes share.

`grant_store` (what others use, client ids among it), `redirects_and_consents` (small facts between sign-ins), `records`
(the content of a file; pure), `private_folder` (which folder, private files that are replaced as a whole),
`renewal_lock` (among processes), `key_seal` (the key, and where it is). All but `GrantStore.keep` and locks block.
"""
