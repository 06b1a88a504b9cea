"""Sign-ins of people at upstreams: from the ticket in a host's or terminal's hand to the grant in the store.

The pages that the hub's own listener serves to a browser, the check whose browser that is, and the flow behind them.
What is found out and kept is `upstreams.oauth`.
"""
