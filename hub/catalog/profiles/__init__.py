"""Profiles: what some hosts are shown of all servers. Pure.

Read in this order: `rules` (of one profile), `choice` (which profile a host has, and what it makes of a
catalogue), `chosen_entries` (of the
entries of one upstream), `fixed_arguments` (of its tools). Besides: `unmatched` (settings that name tools which are not
there), `near_names` (what they probably mean).
"""
