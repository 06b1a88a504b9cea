"""Questions of upstreams, and the calls they belong to.

`attribution` (decides which call a question belongs to), `running` (one running call), `recent_calls` (calls that ended
a moment ago), `questions` (a question from arrival to answer), `progress_tokens` (progress tokens of tasks).
"""
