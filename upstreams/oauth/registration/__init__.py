"""Registration: the client id by which an authorization server knows the hub.

`clients` finds or makes it; `client_metadata` is the hub's description of itself (what a registration sends, what an
answer has to be, and the document the URL of which may be its client id; pure). `trial` is for `hubd doctor`: it tries
all but a registration.
"""
