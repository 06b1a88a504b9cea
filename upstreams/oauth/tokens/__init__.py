"""The token endpoint of an authorization server: what is asked, who asks, and what comes back.

`endpoint` (one request, one answer), `client_proof` (the hub proves its client id, by a secret or a signed statement),
`answer` (what an answer means, its ID token included; pure), `grants` (the grant that an answer makes; pure).
"""
