"""What hosts see of all upstreams. Pure.

`catalog` is the snapshot that is swapped as a whole; `entries` what one upstream offers, `uri_claims` names and URIs
and the way back, `uris` and `rewrite` URIs as text and inside results, `apps` MCP Apps, `instructions` what servers
tell the model, `view` the names of views. What always holds: a name leads to the upstream that it came from.
"""
