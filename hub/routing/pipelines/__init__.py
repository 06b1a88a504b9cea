"""Pipelines: tools of the hub's own that call tools of servers, one after the other.

`judge_whole` has rules judge a call as a whole; `run` carries it out, step by step; `fill_arguments` puts values in
place of references. Each step is an operation of the same host, which passes the same stages as if that host had called
the tool, and reports to and asks that host by `hub.calls.step_exchange`. Which pipelines a view shows:
`hub.catalog.pipelines`.
"""
