"""Streamable HTTP for hosts of both eras, on one path.

`endpoint` sorts requests and answers them. A request: `request` (what it says), `refusals` (why it is turned away); who
may come in is decided before (`hub.downstream.access`). An answer: `reply`, `event_stream`, `slow_answers` (those that
become streams). Legacy sessions: `session`, `sessions` (all of an endpoint), `durable_sessions` (how they outlive the
daemon), `age_in_running_time` (how long ago a kept session ended).

What always holds: a session id is bound to the principal, host and endpoint that it was made for; for all others there
is no such session.
"""
