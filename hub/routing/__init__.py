"""From a host's request to whoever answers it, and what hosts are told.

`router` has the table from method to handler, `resolve` finds the upstream of a name or URI, `resource_reads` the
cached copy of a resource; `host_exchange` is the host's end of an operation. `live_catalog` rebuilds what hosts see
when an upstream changes, `lists` brings it up to date when a host asks, `subscriptions` and `listeners` tell those who
asked to be told, `server_info` is what the hub says of itself. No list waits long for an upstream.
"""
