"""Signing in at upstreams by OAuth: the hub as client of authorization servers, once for all hosts.

`model` (what is found out and kept), `discovery` (which authorization server, and what it can do), `registration` (the
hub's client id there), `tokens` (the token endpoint, renewal), `store` (what is kept, sealed), `credential` (what
sessions with an upstream show). The browser's side is `hub.sign_in`.
"""
