"""The token endpoint of an authorization server: what is asked, who asks, and what comes back.

`endpoint` (one request, one answer), `client_proof` (the hub proves its client id), `assertion` (signed statements of
the hub, by its private key), `answer` (what an answer means; pure), `grants` (the grant that an answer makes; pure),
`id_token` (who signed in at an identity provider; pure).
"""
