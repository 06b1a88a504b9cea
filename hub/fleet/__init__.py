"""The fleet: several hubs of one configuration behind one balancer. Nothing below knows of it.

`route_to_owner` sends each request to the hub that must answer it. `session_ownership` finds that hub and takes over
sessions of hubs that ended, `membership` lists the hubs, `proxy` forwards a request. While the hubs reach their store,
a session is at one hub at most.
"""
