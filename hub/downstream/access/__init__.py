"""Who is let in over HTTP, and as whom.

`access` is the guard of a listener: Host and Origin, the hub's own token, then the other credentials: what a trusted
proxy says of a person, tokens of hosts (`token_files` keeps them, `token_lookup` judges by them), and tokens of
authorization servers (`issuer_token_verdicts`: `read_unverified_jwt`, the `claims`, a `trusted_issuer`). `refusals` is
what all others get. The hub says of itself by which URLs it is reached (`hub_urls`), and who lets hosts in
(`resource_metadata`). What always holds: whoever is let in is an `Identity`, and the credential goes no further.
"""
