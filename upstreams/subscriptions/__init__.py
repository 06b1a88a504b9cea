"""Subscriptions of one session.

`resource_subscription` (one resource; which subscribers are told of a change, and since when changes are sure to be
heard), `session_subscriptions` (all resources of the session), `legacy` and `modern` (tell an upstream of either era
what is subscribed).
"""
