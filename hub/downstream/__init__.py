"""Downstream: the hosts' side of the hub, the twin of `upstreams`.

`host_conversations` are those with attached hosts, `host_of_one_request` is one of a single request,
`request_admission` counts and cancels the requests of all, `host_questions` asks legacy hosts. `request_pipeline` is
the one way in for requests, `taskless_request` one that needs no task. `lines` serves hosts on the unix socket and on
stdio, `http` hosts of Streamable HTTP in both eras, whom `access` has let in. Nothing here knows an upstream.
"""
