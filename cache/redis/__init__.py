"""The shared store, in Redis or Valkey: entries of the cache, and facts about hubs.

`store` looks up and puts entries, within 50 ms or not at all; `layout` has names, scripts and what invalidates an
entry, and seals values, `url` parses the address, `connection_pair` and `resp3_decoder` talk to the server.
`coherence_link` keeps the connections, writes what is invalidated here and hears what is elsewhere;
`hub_messages_and_heartbeats` carries these messages, `health` decides whether the server is asked at all.
`shared_facts` holds facts about hubs, for `hub.fleet`.

What always holds: everything in the store may be lost. Answers of the server are decoded with limits, and values open
only if a hub of the same key sealed them under that name; but whoever can write there could put an old value back, so
the store must be private.
"""
