"""The records of sign-ins, sealed, in one folder that processes share.

`grant_store` (what others use), `keeping` (the same for tasks), `clients` (client ids), `facts` (small things between
sign-ins), `records` (the content of a file; pure), `folder` (private files that are replaced as a whole), `locks` (one
process at a time), `seal` (the key, and where it is), `place` (which folder, where homes are shared by machines). All
but `locks` and `keeping` block.
"""
