"""What upstreams ask: `attribution` decides whose question it is, `running` is the operation it may belong to,
`recent_calls` those that ended a moment ago, `questions` takes one from arrival to answer, `task_tokens` whose progress
a task's is.
"""
