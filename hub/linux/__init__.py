"""All that is particular to Linux, so that another platform has one place. Imports nothing of the house.

`processes` (`/proc/PID`, pidfds, pipes), `socket_tables` (`/proc/net`: whose a port or a connection is),
`child_limits` (prlimit), `harden_hub` (prctl, memory that glibc keeps), `child_marks` (whose child
a process is), `stray_processes` (what a hub left behind), `peer_credentials` (who is at the other end of a unix socket,
user namespaces), `inotify` (changes in directories), `file_locks` (among processes), `socket_watch` (bytes and hang-ups
of sockets that need no tasks), `boot_clock` (runs on during sleep), `freeze_proof_clock` (stands still while the hub is
frozen), `this_machine` (its name, its present run, its file systems).
"""
