"""Profiles: what some hosts are shown of all servers. Pure.

Read in this order: `profile_choice` (which profile a host has), `search_modes` (whether it finds tools by searching),
`profile_entries` (the rules of a profile, and what they make of the entries of one upstream), `fixed_arguments` (of its
tools). Besides: `unmatched_names` (settings that name tools which are not there, and what they probably mean).
"""
