"""Audit: what was called, by whom and by which rule, and how it ended; and what people and the hub decided meanwhile.

    lines     a line of the log, and the hash that chains it to the one before (pure)
    records   what is held of a call in the loop, and the members of its records (pure)
    reading   whether a log is whole, and what is asked of it (pure)
    files     the files of a log: whose they are, their end after a crash, how they are replaced
    writer    `Audit`: takes records in the loop, and has them written by a thread
    stage     the stage that makes records of calls

The loop makes the digest of arguments, and appends one tuple for each record. All else is done in a thread.
"""
