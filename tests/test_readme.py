"""The documents keep their promises: the table of what passes through, the layers, all settings, links."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from msgspec import Raw, Struct

from config.environment.pass_variables_by_patterns import PASSED
from config.loading.assemble import Loaded, load_all
from config.secrets.store import SecretStore
from config.setting_declarations import declarations, tables
from config.settings import CacheConfig, HubConfig, UpstreamConfig
from hub.catalog.endpoint_views import profile_view
from hub.catalog.merge_catalog import choose, merge
from hub.catalog.profiles.profile_entries import ProfileRules
from hub.catalog.time_slices import finish
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.daemon.served_configuration import FixedReferences
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from tests.real.flow_list import FLOWS, PAIRS

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md"), ROOT / "hub/cli/README.md"])

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
    ("heading", "struct"), [("Servers", UpstreamConfig), ("The hub", HubConfig), ("The cache", CacheConfig)]
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
        text = (document.parent / target if target else document).read_text(encoding="utf-8", errors="replace")
        headings = re.findall(r"^#+ (.+)$", text, re.M)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_the_front_page_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 170


def test_nothing_but_the_agreed_documents_lies_at_the_root() -> None:
    assert {path.name for path in ROOT.glob("*.md")} <= {"README.md", "CHANGELOG.md"}


def test_the_example_of_a_profile_does_what_the_text_below_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = (ROOT / "hub/cli/README.md").read_text(encoding="utf-8")
    section = section.partition("\n## Choosing what a host sees\n")[2].partition("\n## ")[0]
    [example] = re.findall(r"```toml\n(.*?)```", section, re.S)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    path = tmp_path / "hubd.toml"
    path.write_text(f'{example}[upstreams.github]\ncommand = "x"\n')
    shown, warnings = _shown_of(load_all(path, {}))
    assert shown == {"github__get_issue": {"owner", "repo", "title"}}, "only that tool is left out"
    assert "there is no secret TRACKER: run `hubd secret set TRACKER`" in warnings
    SecretStore.open().keep("TRACKER", "app")
    shown, warnings = _shown_of(FixedReferences().fill(load_all(path, {})))
    assert shown == {"github__get_issue": {"owner", "repo", "title"}, "new_issue": {"title"}}
    assert not warnings


def _shown_of(loaded: Loaded) -> tuple[dict[str, set[str]], str]:
    """The arguments of each tool that the example's hosts are shown, and the warnings."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("owner", "repo", "title")}}
    tools = tuple(
        ListEntry(name, {"name": raw(name), "inputSchema": raw(schema)})
        for name in ("create_issue", "get_issue", "delete_issue")
    )
    fresh = dict.fromkeys(Kind, Freshness())
    snapshot = Snapshot("github", L4, {"tools": Raw(b"{}")}, {}, "", {Kind.TOOL: tools}, fresh, True)
    everything = merge([snapshot], Rules((UpstreamRule("github"),)), UriClaims())
    rules = ProfileRules("coding", loaded.config.profiles["coding"])
    catalog = finish(choose(everything, profile_view("coding"), rules, None))
    listed = json.loads(bytes(catalog.page(Kind.TOOL, L4, None).value))["tools"]
    arguments = {each["name"]: set(each["inputSchema"]["properties"]) for each in listed}
    return arguments, "; ".join([*map(str, loaded.warnings), *catalog.warnings])
