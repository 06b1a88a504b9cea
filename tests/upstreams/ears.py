"""Somebody who hears what an upstream says: as who looks on, and as the host that watches."""

from fakes import FakeHost
from msgspec import structs


class Ears:
    """An onlooker, and the holder of a host; both write into one list."""

    def __init__(self, host="host", principal="me", into=None):
        self.exchange = FakeHost(host=host, principal=principal, conversation=1)
        self.exchange.caller = structs.replace(self.exchange.caller, lasting=True)
        self.host = self.exchange.caller.tenant
        self.said = [] if into is None else into

    def updated(self, *words):
        self.said.append(("told", words[1]) if len(words) == 2 else ("updated", *words))

    def relisted(self):
        self.said.append(("relisted",))

    def confirmed(self, uri):
        self.said.append(("confirmed", uri))

    def lost(self, tenant):
        self.said.append(("lost", tenant))

    def take(self):
        said = list(self.said)
        self.said.clear()
        return said
