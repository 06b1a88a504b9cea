"""Discovery: which authorization server lets the hub in at an upstream, and what that one can do.

`discover` asks (the only module here that does, by `reading`, which reads one place); all others are pure: `challenge`
(what a refusal says), `addresses` (which URLs are asked, and where metadata belong), `documents` (what is taken from
metadata, and what makes them worthless), `scopes` (which ones are asked for), `texts` (what a person reads).

What always holds: nothing is asked of a server that some check has refused, and what is found out is sound: its URLs
can be used, its identifiers belong to whoever was asked.
"""
