"""Routing of a host's request to its handler, and what hosts are told unasked.

Read in this order: `router` (the table from method to handler), `resolve` (the upstream of a visible name or URI),
`forwarding` (one operation to its upstream, the reply in the host's words), `cached_reads` (reads answered from the
cache), `own_tools` (the tool of an upstream that wants a sign-in, searches for tools, and calls by way of the hub's
own), `host_exchange` (the host's end of an operation: progress, logs, questions). Lists: `live_catalog` owns the
catalogue of each view (`view_catalogs`: what servers list and profiles choose); `list_updates` brings it up to date
when a host asks and announces changes. Hosts that asked to be told: `subscriptions`, `change_listeners`. Besides:
`log_levels`.

A request sees one snapshot of the catalogue; no list waits long for an upstream.
"""
