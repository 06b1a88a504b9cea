"""Questions of upstreams, and the calls they belong to.

`attribution` (decides which call a question belongs to, by those that run and those that ended a moment ago; has the
progress tokens of tasks), `questions` (a question from arrival to answer), `budgets` (how much one upstream may ask).
"""
