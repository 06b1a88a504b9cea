"""Signing in at upstreams by OAuth: the hub as client of authorization servers, once for all hosts.

`model` (what is found out and kept), `discovery` (which authorization server, and what it can do), `registration` (the
hub's client id there), `tokens` (the token endpoint, renewal), `store` (what is kept, sealed), `credential` (what
sessions with an upstream show), `accounts` (all credentials of a hub). The browser's side is `hub.sign_in`.

Below `credential`: `standing` (the token, how long it is good, and the state; pure), `states` (a table of those),
`renewal` (when a token is renewed, and what a failure means; both pure), `shared_renewal` (one renewal for all that
wait for it), `renewing` (one renewal, among all processes), `kept_lookup` (when the kept grant is looked for),
`failures` (what hosts are told), `obtaining` (how the next token is got, with and without a
person), `logout` (the end of it), `holding` (what follows when a fresh token is refused), `step_up` (whether more
scopes are asked for; pure), `texts` (sentences for people), `finding` (what `discovery` and `registration` find out),
`kept` (the grant that is good for an upstream), `parts` (what all credentials of a hub share). `status` makes rows of
all that for people; `extensions` says what is declared to an upstream because of its kind of sign-in.
"""
