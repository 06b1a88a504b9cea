"""Checks of a configuration beyond the types of `settings`: bounds, and how settings fit together. Pure.

`hub` is the entry for the hub's own settings, `upstream` that for one server. Below them: `http_access`,
`cache_replica_and_keys` (what hubs have in common), `rules`, `profiles`, `pipelines`, `server_and_tool_names`, `oauth`,
`registries`; `json_schemas` compiles these.

Everything found is yielded as `Problem`. Keys are those of the struct: of the hub, or of one upstream. Values may hold
secrets that variables brought in, so problems describe what is expected and show no value of a text.
"""
