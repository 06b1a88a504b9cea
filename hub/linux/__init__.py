"""All that is particular to Linux, so that another platform has one place. Imports nothing of the house.

`processes` (`/proc/PID`, pidfds, pipes), `limits` (of children and of the hub itself: prlimit, prctl, memory that glibc
keeps), `orphans` (what a hub left behind), `descriptors` (who is at the other end of a unix socket, user namespaces),
`hangups` (of sockets: epoll), `socket_tables` (`/proc/net`), `machine` (clocks that run on during sleep, boots, file
systems), `inotify` (changes of files).
"""
