"""The resource cache: keeps results of `resources/read` while they are right, and reads once for concurrent readers.

Read in this order: `cache_entry` (keys, entries, causes of dropping, which reads are the same, what a result says about
caching), `resource_cache` (the facade the hub calls, and the listener that upstreams report to), `cache_state` (all
state, and invalidation), and its parts: `memory` (the entries in this process, bounded), `resource_index` (which a
change affects), `fetch` and `single_flight` (reads under way, and the hosts that wait), `auto_subscribe` (subscriptions
of the hub itself), `statistics`, `upstream_interface` (what the cache needs of upstreams), and `shared_store` (of
several hubs; `redis` is one). `README.md` is for users.

What always holds: nothing is kept longer than its upstream allowed or changes are reported; nothing private goes to
another account; no host gets a result that was read before a change of which the hub had heard when the host asked.
Of `hub`, only `hub.wire`, `hub.link` and `hub.linux` are imported.
"""
