"""Guarded requests to the web: by httpx, to checked addresses only, without redirects, with a limit on every answer.

The only user of httpx, for metadata, authorization servers and registries; calls to upstreams have a client of their
own (`upstreams.transports.http`), which shares `proxies` and `connection`.

`terms_and_answers` (what may be asked, what comes back, why nothing did), `strict_json` (how that is read), `fetcher`
(a request from the first check to the last byte), `guard` (which URLs and addresses are asked, and what every address
is for), `proxies` (the proxy for a URL), `connection` (one connection, counted, and whom we trust at its end),
`proxy_tunnel` (the way through a proxy), `httpx_requests` (all that is made of httpx, imported at the first request).

What always holds: every address of a name is checked, and one of the checked addresses is connected to, so that a name
which changes its address between the two gains nothing.
"""
