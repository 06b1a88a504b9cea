"""Questions of upstreams, and the calls they belong to.

`attribution` (decides which call a question belongs to), `running_operation` (one running call), `recent_calls` (calls
that ended a moment ago), `questions` (a question from arrival to answer), `task_tokens` (progress tokens of tasks).
"""
