"""Streamable HTTP for hosts of both eras, on one path.

`endpoint` sorts requests and answers them. A request: `access` (who may come in), `request` (what a POST says),
`refusal` (why it is turned away), `elsewhere` (whether another hub has it). An answer: `reply`, `event_stream`. Legacy
sessions: `session`, `durable_sessions` (how they outlive the daemon), `running_time` (how old what is kept of them is).
What always holds: an id of a session is bound to who made it, and means nothing to anybody else.
"""
