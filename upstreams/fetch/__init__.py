"""Guarded requests to the web: by httpx, to checked addresses only, without redirects, with a limit on every answer.

The only user of httpx, for metadata, authorization servers and registries; calls to upstreams have a client of their
own (`upstreams.transports.http`).
"""
