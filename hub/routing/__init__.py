"""Routing of a host's request to its handler, and what hosts are told unasked.

Read in this order: `router` (the table from method to handler), `compose_chains` (the table of what every operation
passes on its way to an upstream; `hub.calls` says what a stage is), `make_intents` (a request becomes an intent, by one
snapshot of the catalogue; `resolve` waits for what is not there yet), `run_chain` (the way of one intent, without a
task as far as nothing holds it up), `replies_for_hosts` (the reply in the host's words), `own_tools` (tools that the
hub answers itself; `pipelines`: those that call others; `large_results`, `resource_tools`: those that some views list).
Lists: `live_catalog` owns the catalogue of each view, made of what servers list and profiles choose (`view_catalogs`);
`list_updates` brings it up to date when a host asks and announces changes. Hosts that asked to be told:
`subscription_requests`, `change_listeners`. Besides: `cached_copies_for_hosts`, `tool_usage` (how often tools are
called), `log_levels`, `upstream_limits` (how many messages an upstream gets at a time, and hosts in turns).

A request sees one snapshot of the catalogue; no list waits long for an upstream.
"""
