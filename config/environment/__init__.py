"""The environment of servers. Pure.

`pass_variables_by_patterns` says which variables of the hub a server gets, `variables_to_record` which of a shell are
recorded for that. `hubd_env` reads `hubd.env` and its marked block, and puts that file over the environment that the
hub was started with. `hubd env capture` writes the file.

What always holds: what looks like a secret is neither passed nor recorded, unless `pass` names the variable in full.
"""
