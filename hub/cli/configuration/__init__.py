"""The configuration on the command line: commands that change it, show it and check it.

`editing` has remove, enable, disable, and the way of each change: a draft that is checked, shown or saved, and taken up
by the running hub. `adding` is `hubd add`, `editor` is `hubd edit`; `files` has config, validate, schema, trust and
untrust; `environment` is `hubd env`, and `shell_variables` keeps as secrets what only the shell has and servers need.
"""
