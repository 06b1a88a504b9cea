"""Profiles on the command line: shown, suggested, and chosen.

`list_suggest_remove` has `hubd profiles`, `hubd profile suggest` and `hubd profile remove`, and their texts,
`entry_command` has `hubd profile entry`, `pick_command` has `hubd tools --pick`: `list_for_editor` is the list in the
editor, `pick_on_terminal` that at a terminal. `tool_globs` is a set of tools as settings of a profile, and back;
`profile_evidence` is what the hub, its configuration and earlier imports know, `suggest_profile` says what a host might
need by it; `write_profile` puts a profile into hubd.toml, `who_is_shown_profile` says how hosts come to be shown it;
`session_in_profile` is a session as a host of one.
"""
