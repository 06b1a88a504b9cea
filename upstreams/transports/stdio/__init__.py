"""Servers that are processes: `session` speaks to one, `process` starts and ends it, `stderr` keeps what it writes
beside the protocol, `sandbox` is what it may see and touch of the machine; limits and orphans are in `hub.linux`.
"""
