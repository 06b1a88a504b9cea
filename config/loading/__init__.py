"""Loading a configuration: `all_files` finds the files, `one_file` reads one,
`precedence` says which entries of a name count, and `assemble` makes one configuration of all. Below: `safe_reading`
(reading a file safely), `text_limits` (refusing texts too deep or large to parse), `document` (TOML, JSON, YAML, and
the lines of keys), `json_scanner` (JSON with comments), `host_files`, `host_entry` and `host_filters` (files in the
form of a host), `variables` (`${VAR}`), `convert` (values to structs), `check`, `check_access`,
`check_oauth`, `check_profiles` (other names of tools, too) and `check_fleet` (mistakes beyond types).
"""
