"""The configuration on the command line: commands that change it, show it and check it.

`remove_and_switch` has remove, enable, disable, `make_change` the draft of each change; `save_draft` checks it, shows
it or saves it, and lets the running hub take it up. `add_command` is `hubd add`, `edit_command` is `hubd edit`;
`file_commands` has config, validate, schema, trust and untrust; `env_command` is `hubd env`.
"""
