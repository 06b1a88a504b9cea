"""Hosts on the command line: `hubd install` and `uninstall`, `hubd import`.

`install` and `import_command` are the commands. `choose_hosts` selects hosts and their files, `one_command_at_a_time`
has the turn of those that move servers; `entries_to_install` are what files of hosts get, `change_host_files` writes
these and reports it; `import_screens` are the questions and the report of an import, `carry_out_import` its writing;
`who_runs_servers` tells what works through the hub, and what hosts start themselves.
"""
