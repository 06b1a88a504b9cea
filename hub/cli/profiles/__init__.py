"""Profiles on the command line: shown, suggested, and chosen in an editor.

`commands` has `hubd profiles` and `hubd profile suggest`, `picking` has `hubd tools --pick`. Pure: `choice` (a set of
tools as settings of a profile, and back), `suggestion` (what a host might need), `pick_list` (the list in the editor),
`screens`. `evidence` gathers what the hub, its configuration and earlier imports know; `writing` puts a profile into
hubd.toml.
"""
