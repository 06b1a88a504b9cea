"""Journal: `journal` keeps what an upstream wrote to stderr and what happened to it, `history` sums that up for
`hubd status`, `last_words` finds the line of a process that names the error.
"""
