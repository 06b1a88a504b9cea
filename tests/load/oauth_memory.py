"""Memory that sign-ins take: a hub with 1, 10 and 50 servers by URL at which somebody is signed in, and the same hub
that shows them a token of its configuration.

    .venv/bin/python tests/load/oauth_memory.py

The servers are one scripted server under as many names. Each was called once before memory is read. `new`: the hub in
which people have just signed in; `kept`: the next one, which finds the sign-ins.
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.support.oauth.rig import OAuthRig, Part
from tests.support.signing_hub import SigningHub, grant_of, signing_hub

COUNTS = (1, 10, 50)
LASTING = ("--ttl", "86400")


class Taken(NamedTuple):
    """Memory of a hub in MB."""

    rss: float
    pss: float


def names(count: int) -> list[str]:
    """The names of the servers."""
    return [f"n{number}" for number in range(count)]


def taken(hub: SigningHub, count: int) -> Taken:
    """Memory of a hub whose servers have all been called."""
    for name in names(count):
        assert hub.call(f"{name}__read").is_good, name
    memory = psutil.Process(hub.hub.process.pid).memory_full_info()
    return Taken(memory.rss / 1e6, memory.pss / 1e6)


def with_tokens(directory: Path, notes: Part, count: int, token: str) -> Taken:
    """A hub that signs in nowhere."""
    directory.mkdir()
    urls = dict.fromkeys(names(count), notes.url)
    headers = dict.fromkeys(urls, f'headers = {{ Authorization = "Bearer {token}" }}')
    with signing_hub(directory, urls, **headers) as hub:
        return taken(hub, count)


def with_sign_ins(directory: Path, notes: Part, count: int) -> tuple[Taken, Taken]:
    """The hub in which people sign in, and the next one."""
    directory.mkdir()
    urls = dict.fromkeys(names(count), notes.url)
    with signing_hub(directory, urls) as hub:
        for name in urls:
            outcome = hub.sign_in(name, yes=True)
            assert outcome.state == "signed_in", outcome
        new = taken(hub, count)
    with signing_hub(directory, urls) as hub:
        return new, taken(hub, count)


def main() -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as name, OAuthRig(Path(name)) as rig:
        directory, notes = Path(name), rig.liar(None, *LASTING)
        with_sign_ins(directory / "first", notes, 1)
        token = grant_of(directory / "first", "n0").access_token.reveal()
        sys.stdout.write("servers   RSS in MB: a token   new   kept      PSS in MB: a token   new   kept\n")
        for count in COUNTS:
            plain = with_tokens(directory / f"plain-{count}", notes, count, token)
            new, kept = with_sign_ins(directory / f"oauth-{count}", notes, count)
            rss = f"{plain.rss:18.1f} {new.rss:5.1f} {kept.rss:6.1f}"
            sys.stdout.write(f"{count:7d} {rss} {plain.pss:23.1f} {new.pss:5.1f} {kept.pss:6.1f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
