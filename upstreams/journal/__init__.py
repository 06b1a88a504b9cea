"""Journal: `journal` keeps what an upstream wrote to stderr and what happened to it, `events_and_trouble` sums that up
for `hubd status`, `record_filter` chooses records, `error_line` finds the line of a process that names the error,
`lacking_variable` the variable that it lacks.
"""
