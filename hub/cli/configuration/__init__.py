"""The configuration on the command line: commands that change it, show it and check it.

`editing` has remove, enable, disable, and the draft of each change; `saving` checks it, shows it or saves it, and lets
the running hub take it up, and `main_file_of_hub` has all of them be about the main file of the running hub. `adding`
is `hubd add`, `editor` is `hubd edit`; `showing` has config, validate and schema, `trusting` has trust and untrust;
`env_capture` is `hubd env`, and `shell_variables` keeps as secrets what only the shell has and servers need.
"""
