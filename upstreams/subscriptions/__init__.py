"""What is watched over one session: `subscription` is one resource, `session_subscriptions` all of them, `fanout` who
is told of a change, `coverage` since when changes are heard; `legacy` and `modern` make it known to upstreams of either
era.
"""
