"""Parked calls: calls of modern hosts to legacy upstreams, which may ask as they run.

`parked_call_phases` says what may happen when, as a table; `parked_call` is the two ends of one call; `parking` has
their tasks, `known_roots` what hosts said of their roots.
"""
