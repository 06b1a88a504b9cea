"""Parked calls: calls of modern hosts to legacy upstreams, which may ask as they run.

`phases` says what may happen when, as a table; `call` is the two ends of one call; `parking` has their tasks.
"""
