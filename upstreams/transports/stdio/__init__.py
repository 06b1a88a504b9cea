"""Servers that are processes: `session` speaks to one, `process` starts and ends it, `stderr` keeps what
it writes beside the protocol. A sandbox belongs to `process`; limits and orphans are in `hub.linux`.
"""
