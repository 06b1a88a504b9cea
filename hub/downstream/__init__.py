"""Downstream: the hosts' side of the hub, the twin of `upstreams`.

`hosts` lists the attached hosts, `host_questions` asks legacy hosts, `request_pipeline` is the one way in for requests,
`batch` reads the arrays of 2025-03-26. `lines` serves hosts on the unix socket and on stdio, `http` hosts of Streamable
HTTP in both eras. A policy, metrics and an audit belong into `request_pipeline`. Nothing here knows an upstream.
"""
