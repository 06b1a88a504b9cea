"""The configuration as people see it: `effective` shows each setting as it holds, with the file that says it, and the
environment of a server; `json_schema` says to editors what a `hubd.toml` may hold.
"""
