"""Requirements that tests claim: each has a sentence in `data/requirements.toml`, under the heading that is true."""

import tomllib
from pathlib import Path

TESTS = Path(__file__).parent
REQUIREMENTS = tomllib.loads((TESTS / "data" / "requirements.toml").read_text(encoding="utf-8"))
TESTED, LATER = REQUIREMENTS["tested"], REQUIREMENTS["later"]


def test_every_claimed_requirement_has_its_sentence(claims: dict[str, set[str]]) -> None:
    unknown = {id: sorted(tests) for id, tests in claims.items() if id not in TESTED}
    assert not unknown, f"covers() names ids that are not under [tested] in tests/data/requirements.toml: {unknown}"


def test_every_requirement_said_to_be_tested_is_claimed() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py"))
    unclaimed = [id for id in TESTED if f'"{id}"' not in code]
    assert not unclaimed, f"no test claims these: {unclaimed}"
    assert not TESTED.keys() & LATER.keys()


def test_every_requirement_is_a_sentence() -> None:
    for id, sentence in (TESTED | LATER).items():
        assert sentence.endswith("."), (id, sentence)
