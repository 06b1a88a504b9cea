"""The resource cache: what was read is kept while that is right, and read once for all who ask at the same time.

Read in this order: `entry` (what is read, what is kept of it, why it may not be used any more), `resource_cache` (what
the hub calls), `state` (all of the state, and what makes it doubtful), and its parts: `memory` (what is kept, so many
bytes), `index` (what a change concerns), `fetch` and `flight` (reads, and the hosts that wait for one),
`auto_subscribe` (which resources the hub itself watches), `cacheability` (what a result says), `key` (which reads come
to the same), `upstream_interface` and `invalidation` (what it needs of upstreams, and is told by them), `counters` and
`statistics` (counts). Hubs may have a store in common: `shared_store` is what that must do, `redis` is one.

What always holds: nothing is kept for longer than its upstream said or changes are told of; nothing private is given to
another account; nothing is given that was read before a change of which the hub had heard when it was asked.
"""
