"""The store that hubs share, in Redis or Valkey. Nothing in it may not be lost, and nothing in it is believed.

`store` asks and puts, within 50 ms or not at all; `layout` is how things lie there and what invalidates them,
`sealed_values` seals them, `url` says where the server is, `connection` and `replies` talk to it, `member` keeps all
that alive. `bus` is what hubs tell each other, `pending_writes` what could not be written yet, `seen_changes` what this
hub knows to be stale, `health` whether the server is asked at all; `directory` has facts about hubs, for `hub.fleet`.
"""
