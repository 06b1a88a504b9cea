"""Tasks of either era: results that come later.

`task_bridge` decides who looks after one: `awaited_tasks` waits for it, `polled_tasks` gives it to the host.
`translate_tasks` has the words of both eras, `client` the requests to upstreams, and `questions_of_legacy_task` what
these ask meanwhile.
"""
