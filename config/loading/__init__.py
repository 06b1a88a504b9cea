"""Reading a configuration: `all_files` finds the files (`globs`: what `include` means), `layers` puts them on top of
each other, `one_file` reads one. Below: `source` (reading a file safely), `measure` (what is too deep or large to be
parsed), `document` (TOML, JSON, YAML, and the lines of keys), `host_files` and `host_entry` (files in the form of a
host), `variables` (`${VAR}`), `convert` (values to structs), `check` and `check_fleet` (what types cannot say).
"""
