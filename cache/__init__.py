"""The resource cache: keeps results of `resources/read` while they are right, and reads once for concurrent readers.

Read in this order: `entry` (keys, entries, causes of dropping), `resource_cache` (the facade the hub calls),
`cache_state` (all state, and invalidation), and its parts: `memory` (the entries in this process, bounded), `index`
(which entries a change affects), `fetch` and `flight` (reads under way, and the hosts that wait), `auto_subscribe`
(subscriptions of the hub itself), `cacheability` (what a result says about caching), `key` (which reads are the same),
`upstream_interface` (what the cache needs of upstreams), `invalidation` (the listener that upstreams report to),
`statistics`. Hubs may share a store: `shared_store` is the interface, `redis` the implementation. `README.md` is for
users.

What always holds: nothing is kept longer than its upstream allowed or changes are reported; nothing private goes to
another account; no host gets a result that was read before a change of which the hub had heard when the host asked.
Of `hub`, only `hub.wire`, `hub.link` and `hub.linux` are imported.
"""
