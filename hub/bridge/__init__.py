"""The era bridge: questions and tasks that upstreams return in place of a result, for hosts of the other era.

    host    upstream
    legacy  legacy    asked on its own wire, by its exchange; nothing to do here
    modern  legacy    `parking`: the upstream's call goes on while the host's request ends and comes back
    legacy  modern    `questions_in_results`: the host is asked, the upstream is called again with the answers
    modern  modern    `era_bridge`: questions pass, the upstream's state goes sealed

`era_bridge` decides which it is; `sealed_request_state` seals what a host carries between its requests, `tasks` deals
with results that come later, `url_elicitation` with upstreams that ask for a visit to a page, or at which a person has
to sign in (`pending_url_elicitations`: those that have begun).
"""
