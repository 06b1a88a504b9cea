"""The configuration on the command line: commands that change it, show it and check it.

`editing` has remove, enable, disable, and the draft of each change; `saving` checks it, shows it or saves it, and lets
the running hub take it up. `adding` is `hubd add`, `editor` is `hubd edit`; `showing` has config, validate, schema,
trust and untrust; `env_capture` is `hubd env`.
"""
