"""Servers that are processes: `session` speaks to one, `process` starts, limits and ends it, `stderr` keeps what it
writes beside the protocol, `orphans` finds and ends processes that hubs left behind. A sandbox belongs to `process`.
"""
