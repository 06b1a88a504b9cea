"""Servers that are processes: `session` speaks to one, `process` starts, limits and ends it, `stderr` keeps what it
says beside the protocol, `orphans` finds and ends what hubs have left behind. A sandbox belongs to `process`.
"""
