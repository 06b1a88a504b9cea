"""Support: what tests of several rooms share.

Plugins of pytest: `seeds` makes chance repeatable, `limits` ends tests that hang, `task_tree` shows where they hung.
Without processes: `house` is a hub between `fakes`; `fleet_house` is several; `http_fakes` play hosts over HTTP.
With processes: `processes` starts and ends them, `attached` speaks to a hub as its hosts do, `scripted` is a server
that follows a script, `echo_daemon` a daemon without a hub, `redis_server` a real Redis, `rooted` a real
host that has roots.
"""
