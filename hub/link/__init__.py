"""The seam between the two sides of the hub, and what moves messages. `upstreams` and `cache` import it, too.

Read in this order: `interface` (the seam `Upstream.call(operation, exchange) -> Reply`, and the failures of the hub's
own making), `channel` (whole messages to and from one peer, written without waiting), `peer` (requests over a channel,
each matched to its answer). Beside them: `budget` (memory in common), `pace` and `token_bucket` (how much may pass),
`backoff` (how soon to try again), `wakeups` (something to do), `wall` (tasks that go on whatever happens to them),
`machine_time` and `boot_clock` (clocks), `sealing` (what only this hub can read), `autosave` (what is remembered).

What always holds: writing never waits and never interleaves; a caller that gave up leaves nothing behind; no message
reaches anyone but the request it answers.
"""
