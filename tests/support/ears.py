"""A listener that notes what an upstream says: as the cache would, and as a subscriber of a host."""

from msgspec import structs

from tests.support.fakes import FakeHost


class Ears:
    """An invalidation listener, and a subscriber of a host; both write into one list."""

    def __init__(self, host="host", principal="me", into=None):
        self.exchange = FakeHost(host=host, principal=principal, conversation=1)
        self.exchange.caller = structs.replace(self.exchange.caller, lasting=True)
        self.host = self.exchange.caller.tenant
        self.said = [] if into is None else into

    def updated(self, upstream, uri):
        self.said.append(("told", uri))

    def resource_changed(self, uri):
        self.said.append(("changed", uri))

    def resources_relisted(self):
        self.said.append(("relisted",))

    def subscribed(self, uri):
        self.said.append(("subscribed", uri))

    def gap(self, tenant):
        self.said.append(("gap", tenant))

    def take(self):
        said = list(self.said)
        self.said.clear()
        return said
