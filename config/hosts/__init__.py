"""The hosts of this machine, and what hubd reads and writes in their files. Nothing here runs while the hub serves.

Read in this order: `facts` with `hosts.toml` (which hosts there are, and where their files lie), `entry` (how ours
looks in them; `entry_environment`: what it carries, so that it leads to this shell's hub), `installed` (which entries
are ours), `entry_text` and `install` (putting them in and taking them out), `host_servers` (the servers a file holds,
and when two of them are one), `unwrap` (programs that only pass on a remote server), `import_choice` (servers of hosts
become upstreams), `secret_literals` (secrets in them, and references in their places), `near_duplicates` (which of them
are probably the same), `import_files` (an import as a whole; `project_import`: of a project's servers), `leaving`
(which servers may leave their hosts then, and why others stay), `originals` (what hosts no longer start, and putting it
back), `had_before` (servers that hosts had, with their choice of tools), `permissions` (rules of hosts that name
tools), `mistyped_labels` (of profiles); `remembered` is what `installed`, `originals` and `had_before` remember,
`host_commands` runs those of hosts that change their files themselves.

What always holds: deciding and writing are apart, so that what would be done can be shown; a file is written only if it
still is what was read, with a backup; what is not ours keeps every byte. How texts are edited is in
`config.editing.text`, how files are replaced in `config.files`.
"""
