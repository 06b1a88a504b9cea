"""Signing in at servers: `hubd auth` and `hubd logout`.

`commands` has both, and asks for the token of a server that has no sign-in; its `offer_sign_in` is for commands that
meet a server which wants one. `conversation` carries one sign-in through: what is to be opened, and by whom, while the
hub waits for the browser to come back, and an address that is pasted meanwhile; it opens an address here, or says why
that has to be done elsewhere.
"""
