"""The seam between the two sides of the hub, and what moves messages. `upstreams` and `cache` import it, too.

Read in this order: `call_interface` (the seam `Upstream.call(operation, exchange) -> Reply`), `hub_errors` (failures of
the hub's own), `channel` (whole messages to and from one peer), `outbox` (bytes written without waiting),
`line_channel` (messages in lines), `peer` (requests over a channel, each matched to its answer). Limits:
`memory_budget` (shared by all peers), `rate_limits` (token buckets, the pace of reading), `fair_limits` (so many at a
time, and the queue for them), `backoff` (pauses between attempts). Tasks: `fault_isolation` (a task that fails is
started again), `sync_primitives` (a flag, a bell, a promise and the end of a turn of the loop to wait for), `autosave`
(state saved in the background), `module_loading` (imports in a thread), `log_context` (what the log records of a task
are about). Besides: `bounded_dict` (it forgets its oldest entry), `sealing` (texts that only this hub can read or
change), `elicitation_ends` (visits to pages that an upstream has called complete).

Writing never waits and never interleaves; a caller that gave up leaves nothing behind; no message reaches anyone but
the request it answers.
"""
