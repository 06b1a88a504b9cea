"""The era bridge: what an upstream wants in place of a result, and how it comes by it (bridging.md 7, 11).

    host    upstream
    legacy  legacy    asked on its own wire, by its exchange; nothing to do here
    modern  legacy    `parking`: the upstream's call goes on while the host's request ends and comes back
    legacy  modern    `rounds`: the host is asked, the upstream is called again with the answers
    modern  modern    `carry`: questions pass, the upstream's state goes sealed

`carry` decides which it is; `inputs` reads the questions that come in results; `states` seals what a host carries
between its requests, `homes` which hub those belong to; `urls` is about errors that ask for a visit to a page, `tasks`
about results that come later.

Of a parked call, `parked` says what may happen when, `call` is its two ends, `parking` has its tasks; `roots` remembers
what hosts need not be asked again. Of results that come later, `task_words` has the words, `remote` the requests;
`absorb` waits for them, `handles` gives hosts tasks to look after, for which `gather` collects what upstreams ask.
"""
