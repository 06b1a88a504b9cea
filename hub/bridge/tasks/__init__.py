"""Tasks of either era: results that come later.

`tasks` decides who looks after one: `waiting` waits for it, `polled_tasks` gives it to the host. `model` has the words
of both eras, `client` the requests to upstreams and the questions that come with them.
"""
