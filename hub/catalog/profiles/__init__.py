"""Profiles: what some hosts are shown of all servers. Pure.

Read in this order: `choice` (which profile and mode a host has, and the rules of one), `chosen_entries` (what it makes
of the entries of one upstream), `fixed_arguments` (of its tools). Besides: `unmatched` (settings that name tools which
are not there, and what they probably mean).
"""
