"""Values of references such as `${secret:NAME}`, which are read when a server starts: `sources` reads them, in a
thread; `reference_values` keeps those of one upstream, reads them again, and says when they cannot be had.
"""
