"""Servers that are processes: `session` speaks to one, `process` starts and ends it, `limits` says what it may take,
`stderr` keeps what it writes beside the protocol, `orphans` finds and ends processes that hubs left behind. A sandbox
belongs to `process`.
"""
