"""Who is let in over HTTP, and as whom.

`access` is the guard of a listener: Host and Origin, the hub's own token (`hub_token`), then the other credentials, for
which it asks what else there is: tokens of hosts (`host_tokens` keeps them, `named_tokens` judges by them), and tokens
of authorization servers (`issued_tokens`: the `claims`, an `issuer` with its `issuer_metadata` and `signing_keys`;
`asked_again`, for streams; `resource_metadata` is what the hub says of itself). `trusted_proxy` believes what a proxy
says of a person. `refusals` are the answers to all others, and the header fields for pages of allowed origins. What
always holds: whoever is let in is an `Identity`, and the credential goes no further than that.
"""
