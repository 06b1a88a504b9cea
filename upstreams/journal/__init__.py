"""Journal: `journal` keeps what an upstream wrote to stderr and what happened to it, `history` sums that up for
`hubd status`, `redact` takes secrets out of both.
"""
