"""Profiles on the command line: shown, suggested, and chosen.

`commands` has `hubd profiles` and `hubd profile suggest`, `picking` has `hubd tools --pick`, `removing` has `hubd
profile remove`. Pure: `choice` (a set of tools as settings of a profile, and back), `suggestion` (what a host might
need), `pick_list` (the list in the editor), `arrows` (that at a terminal), `arrival` (how hosts come to be shown a
profile), `screens`. `evidence` gathers what the hub, its configuration and earlier imports know, `ways_in` the entries
of hosts and their tokens; `writing` puts a profile into hubd.toml, `session` is a session as a host of one, `left_out`
tells which profiles do not show a new server.
"""
