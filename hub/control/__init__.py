"""The private socket of the command line: `server` in the daemon, `client` in commands, `answers` the shapes and limits
of what is said there.
"""
