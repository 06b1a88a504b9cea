"""The resource cache: what was read is kept while that is right, and read once for all who ask at the same time.

Read in this order: `subject` (what is read, what is kept of it, why it may not be used any more), `reads` (what the hub
calls), `keeping` (all of the state, and what makes it doubtful), and its parts:

- `memory`: what is kept in this process, so many bytes and entries; `index`: what a change concerns;
- `fetching`: reads of upstreams, as tasks; `flight`: one of them, and the hosts that wait for it;
- `observing`: which resources the hub has itself told of; `results`: what a result says about being kept;
- `sides`: what it needs of upstreams; `onlooker`: what they say; `sameness`: which reads come to the same;
- `tally` and `facts`: what is counted, and what is to be seen of it.

Hubs may have a store in common (`shared`). `redis` is one, for Redis and Valkey, and names its own parts.

What always holds: something is kept for as long as its upstream said, or while that would tell this hub of a change;
nothing private is given to another account; nothing is given that was read before a change of which the hub had heard
when it was asked.
"""
