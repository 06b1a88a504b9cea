"""How hosts come in; the twin of `upstreams`.

`hosts` is everybody who is attached, `host_questions` what a legacy host is asked, `request_pipeline` one request from
taking it on to its answer, `batch` the arrays of 2025-03-26. `lines` carries hosts on the unix socket and on stdio,
`http` those of Streamable HTTP in both eras. Nothing here knows an upstream.
"""
