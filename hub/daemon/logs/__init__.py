"""Log of the hub: records on stderr for whoever reads it, and the last of them for `hubd logs`.

    setup           levels and handlers of a process
    handlers        stderr, faults, the log of this run
    journald        the journal of systemd, where stderr goes there
    forms           plain lines for a person, JSON lines for a collector
    record_fields   what a record is about

Nothing here ever waits. Names of loggers: `hubd` or `hubd.<subject>`, which stay when modules move, for what users may
filter by; `__name__` for all else.
"""
