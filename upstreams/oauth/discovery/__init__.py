"""Discovery: which authorization server lets the hub in at an upstream, and what that one can do.

`discover` asks, and is the only module here that does; all others are pure: `challenge` (what a refusal says, and which
scopes are asked for), `peer_urls` (which URLs are asked, and where metadata belong), `metadata` (what is taken from
documents, and what makes them worthless).

What always holds: nothing is asked of a server that some check has refused, and what is found out is sound: its URLs
can be used, its identifiers belong to whoever was asked.
"""
