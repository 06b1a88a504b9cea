"""Downstream: the hosts' side of the hub, the twin of `upstreams`.

`hosts` lists the attached hosts, `host` is one of them or stands for one request of any other, `running_requests`
counts and cancels the requests of all, `host_questions` asks legacy hosts, `router` is what all of them ask.
`request_pipeline` is the one way in for requests: a policy, metrics and an audit belong there. `batch` reads the arrays
of 2025-03-26. `lines` serves hosts on the unix socket and on stdio, `http` hosts of Streamable HTTP in both eras, whom
`access` has let in. Nothing here knows an upstream.
"""
