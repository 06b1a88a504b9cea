"""The configuration as people see it: `effective` shows each setting as it holds, with the file that says it,
`server_environment` the variables that a server gets; `json_schema` says to editors what a `hubd.toml` may hold.
"""
