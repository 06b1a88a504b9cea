"""Registration: the client id by which an authorization server knows the hub.

`clients` finds or makes it; `client_store` is the contract of what keeps it. Pure: `dynamic` (what a registration
sends, and what an answer has to be), `client_document` (the hub's description of itself, the URL of which may be its
client id), `texts` (what a person reads). `trial` is for `hubd doctor`: it tries all but a registration.
"""
