"""What the hub was told, where its files are, and what it remembers. Knows nothing of MCP messages.

Reading, in this order: `schema` (the frozen structs), `places` and `paths` (directories and sockets), `layers` (all
files as one `Loaded`), `gather` (which files these are; `patterns`: what `include` leads to), `load` (one file). Below
these: `source` (reading a file safely, and gathering what is to be said about it), `measure` (what is too deep or too
large to be parsed), `document` (TOML, JSON, YAML and the lines of their keys), `mcpservers` and `hostentry` (files in
the words of a host), `variables` (`${VAR}` and friends), `convert` (values become structs), `check` and `check_sharing`
(what types cannot say), `names` (server ids), `errors` (what is said about files).

On top of that:
  - files of a project: `projects` (what they add for the hosts that work there), `trust` (which ones the user allowed)
  - changes while the hub runs: `watch` (that files changed), `diff` (what it means for what runs)
  - what is shown: `effective` (which setting holds, and who says so), `describe` (the JSON Schema), `secrecy` (what
    looks like a secret)
  - what is written: `files` (one file replaced, with a backup), `text` (texts edited so that everything around a change
    stays), `edit` (changes of our own files), `imported` (the files an import writes), `hosts` (files of hosts:
    install and import)
  - what is remembered between runs: `state`

What always holds: a `HubConfig` has been checked as a whole or does not exist; what is wrong with files is one
`ConfigError` that names each file, line and key, and what to write instead; secrets are `Secret` from the moment they
are read.
"""
