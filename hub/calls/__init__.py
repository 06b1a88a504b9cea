"""One operation of a host: what it wants, the stages that it passes, and the end of it that its host holds.

`chain` has the intent of an operation, its target, and the stages between its host and its upstream; `host_exchange`
is the end at its host, which hears progress, logs and questions (`step_exchange`: that of one step of a pipeline);
`count_dropped_messages` counts what it could not hear.
`hub.routing` makes intents and composes the chains.
"""
