"""Servers behind a URL.

`detect` finds out what a server speaks; `conversation` is what sessions of both eras share, `legacy` and `modern` what
they do not, `sse_transport` HTTP+SSE of 2024-11-05. `poster` sends one message and reads what comes back,
`standing_stream` reads what a legacy server says by itself; `client` keeps connections, `connection` is one of them,
`head` reads what answers begin with.
"""
