"""The hosts of this machine, and what hubd reads and writes in their files. Nothing here runs while the hub serves.

Read in this order: `known_hosts` with `hosts.toml` (which hosts there are, and where their files lie), `hub_entries`
(how our entry looks in them, which entries are ours, and the text with or without them), `install` (the writing, by
programs of hosts that change their files themselves, too), `host_servers` (the servers a file holds, and when two of
them are one), `unwrap_proxies` (programs that only pass on a remote server), `import_plan` (servers of hosts become
upstreams), `secret_literals` (secrets in them, and references in their places), `servers_in_hub` (what is there before
an import), `write_import_to_files` (the files one writes), `removal_choice` (which servers may leave their hosts then,
and why others stay), `subagent_files` (files of subagents that are shown a profile), `removed_originals` (what hosts no
longer start, and putting it back), `records_by_file` (how these remember files), `servers_hosts_had` (before an
import), `outdated_permissions` (rules of hosts that name tools), `near_duplicates` (servers that are probably the
same).

What always holds: deciding and writing are apart, so that what would be done can be shown; a file is written only if it
still is what was read, with a backup; what is not ours keeps every byte. How texts are edited is in
`config.editing.text`, how files are replaced in `config.atomic_writes`.
"""
