"""Signing in at upstreams by OAuth: the hub as client of authorization servers, once for all hosts.

`credentials_by_upstream`    all credentials of a hub
`credential`  what sessions with one upstream show, and what becomes of a refusal; `credential_machine` (pure) below it:
              the token, when it is renewed, and what hosts are told; what all credentials share
`renewal`     one renewal, among all processes, and the end of a sign-in; `obtain_token`: the ways to the next token
`discovery`   which authorization server, and what it can do
`client_id`   the client id by which that one knows the hub; `client_metadata`: how the hub describes itself (pure)
`token_endpoint` one request there, one answer, and how the hub proves its client id; `token_answers` (pure): what an
              answer means, and the grant that it makes; `check_id_token` (pure): is an ID token for this sign-in
`store`       what is kept, sealed; `model`: all that as facts

A hub loads `credentials_by_upstream` and `credential` with the first upstream that has a URL, `renewal` and what is
below it when one wants a token, or when there is a kept grant. The browser's side is `hub.sign_in`.
"""
