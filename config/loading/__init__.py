"""Loading a configuration: `gather` finds the files and reads them, each by `read_source` (variables:
`resolve_values`), `precedence` says which entries of a name count, and `assemble` makes one configuration of all.
Below: `text_limits` (refusing texts too deep or large to parse), `document` (TOML, JSON, YAML, and the lines of keys),
`json_scanner` (JSON with comments), `translate_host_file` and `translate_host_entry` (files in the form of a host),
`variables` (`${VAR}`), `parse_addresses` (HOST:PORT, URLs), `pipeline_references` (`${step.text}`),
`convert_to_structs` (values to structs), `split_accounts` (several at one server), `checks` (mistakes beyond types).
"""
