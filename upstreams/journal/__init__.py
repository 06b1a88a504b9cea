"""What became of an upstream: `journal` keeps what it wrote to stderr and what happened, `history` the events that
`hubd status` shows, `redact` takes secrets out of both.
"""
