"""Between the wire and the two sides of the hub: bytes that move, requests that are answered, the seam.

Read in this order: `exchange` (the seam `Upstream.call(operation, exchange) -> Reply`, and the failures of the hub's
own making), `channel` (whole messages to and from one peer, written without waiting), `peer` (requests over a channel,
each matched to its answer), `flag` (something to do), `pauses` (how soon to try again), `bucket` (how much may pass),
`wall` (tasks that go on for ever, whatever happens to them), `sleepless` (a clock that goes on while the machine
sleeps).

What always holds: writing never waits and never interleaves; a caller that gave up leaves nothing behind; no message
reaches anyone but the request it answers. Nothing here knows hosts, upstreams or revisions.
"""
