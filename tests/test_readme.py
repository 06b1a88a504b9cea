"""The documents keep their promises: the table of what passes through, the layers, all settings, links."""

import re
import tomllib
from pathlib import Path

import pytest
from msgspec import Struct

from config.environment.passing import PASSED
from config.setting_facts import declarations, tables
from config.settings import CacheConfig, HubConfig, UpstreamConfig
from tests.real.flow_list import FLOWS, PAIRS

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md")])

ROW = re.compile(r"^\| (?P<feature>[^|]+) \| (?P<cells>(?:[✓–] \| ){4})(?P<flows>(?:`\w+` ?)+)\|$", re.M)


def rows():
    """The pairs ticked for each flow of the table."""
    text = (ROOT / "hub" / "README.md").read_text(encoding="utf-8")
    for row in ROW.finditer(text):
        ticked = tuple(pair for pair, cell in zip(PAIRS, row["cells"].split(" | "), strict=False) if cell == "✓")
        for flow in re.findall(r"`(\w+)`", row["flows"]):
            yield flow, ticked


def test_every_tick_is_a_test_and_every_test_a_tick():
    assert dict(rows()) == {name: flow.pairs for name, flow in FLOWS.items() if not flow.npm}


def test_the_layers_are_those_that_are_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    whole = project["tool"]["importlinter"]["contracts"][0]["layers"]
    text = (ROOT / "hub" / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- layers -->\n```\n")[2].partition("```\n<!-- /layers -->")[0]
    assert " > ".join(whole) == " ".join(shown.split())


def test_every_package_has_a_map():
    """A docstring that names each of its modules and packages."""
    for package in ("hub", "upstreams", "cache", "config"):
        for init in (ROOT / package).rglob("__init__.py"):
            text = init.read_text()
            there = {path.stem for path in init.parent.glob("*.py")} | {
                path.parent.name for path in init.parent.glob("*/__init__.py")
            }
            missing = {name for name in there - {"__init__"} if not re.search(rf"\b{name}\b", text)}
            assert not missing, (init, missing)


@pytest.mark.parametrize(
    ("heading", "struct"),
    [("Servers", UpstreamConfig), ("The hub", HubConfig), ("The cache", CacheConfig)],
)
def test_the_reference_has_every_setting_and_its_default(heading: str, struct: type[Struct]) -> None:
    section = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    section = section.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    words = {word for code in re.findall(r"`([^`]+)`", section) for word in re.findall(r"\w+", code)}
    elsewhere = {"cache", "defaults", "upstreams"} if struct is HubConfig else set()
    names = declarations(struct).keys() - elsewhere
    assert (
        names | {key for name, table in tables(struct).items() if name in names for key in declarations(table)} <= words
    )
    shown = re.findall(r'`(\w+)` (?:`"([^`]*)"`|([\d ]*\d)( MiB)?)', section)
    assert len(shown) >= 2
    for name, text, number, unit in shown:
        found = [declarations(each).get(name) for each in (struct, *tables(struct).values())]
        default = text or int(number.replace(" ", "")) << (20 if unit else 0)
        assert default in [declared.default for declared in found if declared is not None], name


def test_the_reference_names_every_variable_that_servers_get() -> None:
    section = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    section = section.partition("\n## The environment of servers\n")[2].partition("\n## ")[0]
    assert set(PASSED) <= {word for code in re.findall(r"`([^`]+)`", section) for word in code.split()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_the_documents_lead_somewhere(document: Path) -> None:
    """Anchors are those of GitHub: lower case, words joined by dashes, everything else gone."""
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", document.read_text(encoding="utf-8")):
        text = (document.parent / target if target else document).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.M)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_nothing_but_the_agreed_documents_lies_at_the_root() -> None:
    assert {path.name for path in ROOT.glob("*.md")} <= {"README.md", "CHANGELOG.md"}
