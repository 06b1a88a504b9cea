"""Signing in at servers: `hubd auth` and `hubd logout`.

`commands` has both; `conversation` carries one sign-in through: what is to be opened, and by whom, while the hub waits
for the browser to come back. `browser` opens an address here, or says why that has to be done elsewhere; `pasting`
reads the address that a person copies from there. `offer` is for commands that meet a server which wants a sign-in,
`token` for a server that has none and wants a token.
"""
