"""Tests name the requirements they prove; a name that exists nowhere proves nothing."""

from pathlib import Path

KNOWN = {
    line
    for line in (Path(__file__).parent / "data" / "requirements.txt").read_text().splitlines()
    if line and not line.startswith("#")
}


def test_every_claimed_requirement_exists(claims):
    unknown = {id: sorted(tests) for id, tests in claims.items() if id not in KNOWN}
    assert not unknown, f"covers() names ids that tests/data/requirements.txt does not hold: {unknown}"
