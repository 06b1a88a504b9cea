"""Subscriptions of one session.

`subscription` (one resource), `session_subscriptions` (all resources of the session), `fanout` (which subscribers are
told of a change, and since when changes are sure to be heard), `legacy` and `modern` (tell an upstream of either era
what is subscribed).
"""
