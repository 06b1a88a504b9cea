"""The fleet: several hubs of one configuration behind one balancer. Nothing below knows of it.

`affinity` has a request answered by the hub it belongs to, `ownership` knows which that is and takes over from hubs
that ended, `membership` which hubs there are, `homes` reads what a modern host carries, `notes` writes what others are
to know, `proxy` sends a request on. A session is at one hub at most, as long as the hubs reach their store.
"""
