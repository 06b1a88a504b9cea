"""What a person is shown of a server and its pins. Pure."""

from collections.abc import Callable, Collection, Mapping

from msgspec import structs

from hub.control.pin_messages import PinnedServer
from hub.rules.fingerprints import Definition, Fingerprint, definitions_of, split_key
from hub.rules.pins.differences import describe
from hub.rules.pins.prompt_injection_flags import flags
from hub.rules.pins.reviews import Review


def describe_server(
    review: Review,
    newest: Mapping[str, Fingerprint],
    find_approved: Callable[[str], Definition | None],
    others: Collection[str],
    *,
    shows: bool,
) -> PinnedServer:
    """A server as it is reviewed. `shows`: with all that differs; `others`: names of other servers' tools."""
    listed, changes = definitions_of(review.received), []
    for key in (*review.changes.waiting, *review.changes.gone):
        held, words = split_key(key) in review.held, newest[key].words if key in newest else None
        change = describe(key, find_approved(key), listed.get(key), held=held, approved_words=words)
        changes.append(change if shows else structs.replace(change, words=(), hints=(), parameters=()))
    return PinnedServer(
        name=review.received.upstream,
        pinning=review.terms.pinning,
        state=review.state,
        changes=tuple(changes),
        hidden=dict(review.hidden),
        left_out=tuple(sorted(review.hides)),
        flags=flags(listed, others) if shows else (),
    )
