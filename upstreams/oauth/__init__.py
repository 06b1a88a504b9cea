"""Signing in at upstreams by OAuth: the hub as client of authorization servers, once for all hosts.

`accounts`    all credentials of a hub
`credential`  what sessions with one upstream show, and what becomes of a refusal; `state` (pure) below it: the token,
              when it is renewed, and what hosts are told
`renewing`    one renewal, among all processes; `obtaining`: the ways to the next token, with and without a person
`logout`      the end of a sign-in
`discovery`   which authorization server, and what it can do; `registration`: the hub's client id there;
              `tokens`: the token endpoint; `store`: what is kept, sealed; `model`: all that as facts

A hub loads `accounts` and `credential` with the first upstream that has a URL, `renewing` and what is below it when one
wants a token, or when there is a kept grant. `parts` is what all credentials share, `status` makes rows for people,
`extensions` says what is declared to an upstream because of its kind of sign-in. The browser's side is `hub.sign_in`.
"""
