"""Claims of URIs: the way from each form that hosts see back to its owner."""

import json
import random

import pytest

from hub.catalog.uri_claims import MAX_CLAIMED_CHARS, MAX_CLAIMS, MAX_EXPRESSIONS, MAX_SCHEMES, UriClaims
from hub.catalog.uri_templates import MAX_ALIKE, MAX_MATCHED_CHARS, MAX_TRIED
from tests.support.counting import calls_of, lines_of


def claims_of(*names, local=(), aliases=None, bare=None, data=None):
    claims = UriClaims.load(data)
    claims.configure(names, aliases=aliases or {}, bare=bare)
    for name in names:
        claims.locate(name, local=name in local)
    return claims


def template(claims, upstream, text):
    return claims.relist(upstream, [], [text])[1][0]


@pytest.mark.covers("G-3")
def test_the_first_to_show_a_uri_keeps_it():
    claims = claims_of("a", "b")
    assert claims.emit("a", "x://1") == "x://1"
    assert claims.emit("b", "x://1") == "hub.b+x://1"
    assert claims.emit("a", "x://1") == "x://1"
    assert claims.owner("x://1") == "a"
    assert claims.resolve("x://1") == [("a", "x://1")]
    assert claims.resolve("hub.b+x://1") == [("b", "x://1")]
    assert claims.resolve("hub.nobody+x://1") == []


def test_what_looks_like_a_tag_is_tagged_again():
    claims = claims_of("a", "b")
    for uri in ("hub.b+x://1", "hub.a+x://1", "HUB.b+x", "hub.not-yet+x", "hub.a+hub.b+"):
        assert claims.emit("a", uri) == f"hub.a+{uri}"
        assert template(claims, "a", uri + "{y}") == f"hub.a+{uri}{{y}}"
        assert claims.resolve(f"hub.a+{uri}") == [("a", uri)]
    assert claims.emit("a", "ui://b~x") == "ui://a~b~x"


@pytest.mark.covers("X-15")
def test_ui_is_always_tagged_and_read_bare_only_from_a_sole_owner():
    claims = claims_of("a", "b")
    assert claims.emit("a", "ui://widget/main.html") == "ui://a~widget/main.html"
    assert claims.resolve("ui://a~widget/main.html") == [("a", "ui://widget/main.html")]
    assert claims.resolve("ui://widget/main.html") == [("a", "ui://widget/main.html")]
    assert claims.emit("b", "ui://widget/main.html") == "ui://b~widget/main.html"
    assert claims.resolve("ui://widget/main.html") == []
    assert template(claims, "b", "ui://item/{id}") == "ui://b~item/{id}"
    assert claims.resolve("ui://item/7") == [("b", "ui://item/7")]


def test_web_addresses_never_change_and_the_first_lister_answers():
    claims = claims_of("a", "b")
    assert claims.emit("b", "https://w/1") == "https://w/1"
    assert claims.resolve("https://w/other") == [("b", "https://w/other")]
    assert claims.emit("a", "https://w/1") == "https://w/1"
    assert claims.resolve("https://w/1") == [("a", "https://w/1"), ("b", "https://w/1")]
    assert claims.resolve("https://w/other") == []
    assert template(claims, "a", "https://t/{x}") == "https://t/{x}"
    assert claims.resolve("https://t/7") == [("a", "https://t/7")]
    long = "https://w/" + "x" * MAX_CLAIMED_CHARS
    assert claims.emit("a", long) == long
    assert template(claims, "a", long + "{x}") == long + "{x}"


def test_local_files_are_shared_and_remote_ones_tagged():
    claims = claims_of("far", "a", "b", local=("a", "b"))
    readme = "file:///project/README.md"
    assert claims.emit("far", readme) == f"hub.far+{readme}"
    assert claims.resolve(readme) == []
    assert claims.emit("b", readme) == claims.emit("a", readme) == readme
    assert claims.resolve(readme) == [("a", readme), ("b", readme)]
    assert claims.resolve(f"hub.far+{readme}") == [("far", readme)]
    assert template(claims, "b", "file:///logs/{day}") == "file:///logs/{day}"
    assert template(claims, "far", "file:///logs/{day}") == "hub.far+file:///logs/{day}"
    assert claims.resolve("file:///logs/1") == [("b", "file:///logs/1")]
    assert claims.resolve("file:///unlisted") == [("a", "file:///unlisted")]
    assert claims.emit("far", "FILE:///x") == "hub.far+FILE:///x"


def test_a_claimed_template_owns_its_expansions():
    claims = claims_of("a", "b", "c")
    assert template(claims, "a", "db://{table}/rows") == "db://{table}/rows"
    assert claims.emit("a", "db://t/rows") == "db://t/rows"
    assert claims.emit("b", "db://t/rows") == "hub.b+db://t/rows"
    assert claims.resolve("db://any/rows") == [("a", "db://any/rows")]
    assert template(claims, "b", "db://x/{y}") == "hub.b+db://x/{y}"
    assert template(claims, "b", "{+any}") == "hub.b+{+any}"
    assert template(claims, "a", "db://{table}/rows") == "db://{table}/rows"
    assert template(claims, "a", "db://{table}/columns") == "db://{table}/columns"
    assert claims.emit("b", "db://free") == "db://free"
    assert template(claims, "a", "db://f{x}") == "hub.a+db://f{x}"
    assert template(claims, "c", "db:{x}") == "hub.c+db:{x}"
    assert template(claims, "c", "other:{x}") == "other:{x}"
    assert claims.resolve("db:unseen") == []


def test_text_of_a_scheme_only_one_upstream_uses_goes_to_it():
    claims = claims_of("a", "b")
    claims.emit("a", "x://1")
    assert claims.resolve("x://2") == [("a", "x://2")]
    claims.emit("b", "x://3")
    assert claims.resolve("x://2") == []
    assert claims.resolve("never:seen") == []


def test_arguments_lose_the_tags_of_their_own_upstream_only():
    claims = claims_of("a", "b", aliases={"old": "a"})
    assert claims.untag("a", "hub.a+x://1") == "x://1"
    assert claims.untag("a", "hub.old+x://1") == "x://1"
    assert claims.untag("a", "ui://a~w") == "ui://w"
    assert claims.untag("a", "hub.b+x://1") == "hub.b+x://1"
    assert claims.untag("a", "plain") == "plain"


def test_the_bare_upstream_keeps_its_uris_unless_another_has_claimed_them():
    claims = claims_of("a", "b", bare="b")
    assert claims.emit("b", "ui://w") == "ui://w"
    assert claims.emit("b", "ui://a~w") == "ui://b~a~w"
    assert claims.emit("b", "file:///f") == "file:///f"
    assert template(claims, "b", "ui://v/{x}") == "ui://v/{x}"
    assert template(claims, "b", "ui://v{x}") == "ui://b~v{x}"
    assert template(claims, "b", "file:///{x}") == "file:///{x}"
    claims.emit("a", "x://1")
    assert claims.emit("b", "x://1") == "hub.b+x://1"
    assert claims.resolve("ui://w") == [("b", "ui://w")]
    assert claims.resolve("file:///f") == [("b", "file:///f")]
    claims.emit("a", "ui://w")
    assert claims.resolve("ui://u") == [("b", "ui://u")]


def test_an_answer_of_a_removed_upstream_is_tagged():
    assert claims_of("a").emit("gone", "x://1") == "hub.gone+x://1"


def test_claims_move_with_a_rename_and_end_with_removal():
    claims = claims_of("old", "b")
    claims.relist("old", ["x://1"], ["y:{z}"])
    claims.emit("b", "x://2")
    claims.configure(["new", "b"], aliases={"old": "new", "older": "gone"}, bare=None)
    assert claims.owner("x://1") == claims.owner("y:1") == "new"
    assert claims.owner("x://2") == "b"
    assert claims.resolve("hub.old+x://1") == [("new", "x://1")]
    assert claims.releases == 0
    claims.configure(["b"], aliases={}, bare=None)
    assert claims.owner("x://1") is claims.owner("y:1") is None
    assert claims.owner("x://2") == "b"
    assert claims.releases == 1
    claims.configure(["b"], aliases={"x": "b"}, bare=None)
    claims.configure(["b", "c"], aliases={"b": "c"}, bare=None)
    assert claims.owner("x://2") == "b"


def test_two_old_names_of_one_upstream_give_it_the_first_ones_claims():
    claims = claims_of("old1", "old2")
    claims.emit("old1", "x://1")
    claims.emit("old2", "x://2")
    claims.configure(["new"], aliases={"old1": "new", "old2": "new"}, bare=None)
    assert (claims.owner("x://1"), claims.owner("x://2")) == ("new", None)


@pytest.mark.covers("G-3")
def test_two_instances_of_one_product_side_by_side():
    claims = claims_of("a", "b")
    uris, templates = ["x://1", "ui://w", "https://w"], ["x://t/{id}", "y:{id}"]
    assert claims.relist("a", uris, templates) == (["x://1", "ui://a~w", "https://w"], templates)
    assert claims.relist("b", uris, templates) == (
        ["hub.b+x://1", "ui://b~w", "https://w"],
        ["hub.b+x://t/{id}", "hub.b+y:{id}"],
    )


def test_listed_claims_outlast_any_number_of_links():
    claims = claims_of("a", "b")
    claims.relist("a", ["x://listed"], [])
    claims.emit("a", "x://first")
    for i in range(MAX_CLAIMS):
        assert claims.emit("a", f"x://{i}") == f"x://{i}"
    claims.emit("a", "https://shared")
    assert claims.owner("x://listed") == "a"
    assert claims.owner("x://first") is claims.owner("x://0") is None
    assert claims.owner("x://1") == "a"
    assert claims.releases == 2
    claims.relist("a", [], [])
    assert claims.owner("x://listed") == "a"
    assert claims.owner("x://1") is None


def test_a_uri_shown_again_is_forgotten_later():
    claims = claims_of("a")
    for i in range(MAX_CLAIMS):
        claims.emit("a", f"x://{i}")
    claims.emit("a", "x://0")
    claims.emit("a", "x://new")
    assert claims.owner("x://0") == "a"
    assert claims.owner("x://1") is None


def test_too_long_or_too_many_are_tagged_rather_than_remembered():
    claims = claims_of("a")
    long = "x://" + "y" * MAX_CLAIMED_CHARS
    assert claims.emit("a", long) == f"hub.a+{long}"
    assert template(claims, "a", long + "{z}") == f"hub.a+{long}{{z}}"
    shown = claims.relist("a", [], [f"x://{i}/{{y}}" for i in range(MAX_CLAIMS + 1)])[1]
    assert shown[-1] == f"hub.a+x://{MAX_CLAIMS}/{{y}}"
    assert shown[-2] == f"x://{MAX_CLAIMS - 1}/{{y}}"
    for i in range(MAX_SCHEMES + 10):
        claims.emit("a", f"s{i}:x")
    assert len(claims.dump()["a"]["schemes"]) == MAX_SCHEMES


@pytest.mark.covers("F-P-16")
def test_looking_a_uri_up_stays_cheap():
    claims = claims_of("a")
    alike = [f"x:{{y}}/{i}" for i in range(MAX_ALIKE + 1)]
    assert claims.relist("a", [], alike)[1] == [*alike[:-1], f"hub.a+{alike[-1]}"]
    longer = [f"z:{'z' * i}{{y}}" for i in range(MAX_ALIKE + 1)]
    assert claims.relist("a", [], [*longer, "z:y{y}"])[1] == [*longer[:-1], f"hub.a+{longer[-1]}", "z:y{y}"]


@pytest.mark.covers("F-P-16", "I-3", "SEC-13")
def test_the_expressions_that_one_uri_may_have_to_be_tried_with_are_bounded():
    claims = claims_of("a")
    templates = [f"x:{'x' * i}" + "{y}/" * 20 for i in range(MAX_TRIED // 20 + 1)]
    assert claims.relist("a", [], templates)[1] == [*templates[:-1], f"hub.a+{templates[-1]}"]
    beside = ["x:b{y}", *(f"z:{i:03}{{y}}/{{z}}" for i in range(500))]
    assert claims.relist("a", [], [*templates[:-1], *beside])[1] == [*templates[:-1], *beside], (
        "no URI has to be tried with both"
    )
    restarted = claims_of("a", data=claims.dump())
    assert restarted.relist("a", [], templates)[1] == claims.relist("a", [], templates)[1]
    uri = "x:" + "x" * 2000
    assert lines_of(lambda: claims.emit("a", uri)) < 20 * MAX_TRIED


@pytest.mark.covers("F-P-16", "I-3", "SEC-13")
def test_a_template_of_many_expressions_is_tagged_rather_than_remembered():
    claims = claims_of("a")
    most = "x:" + "{y}/" * MAX_EXPRESSIONS
    assert template(claims, "a", most) == most
    assert template(claims, "a", most + "{z}") == f"hub.a+{most}{{z}}"
    assert template(claims, "a", "https:" + most + "{z}") == "https:" + most + "{z}"
    kept = {"a": {"templates": [most, most + "{z}"]}}
    assert claims_of("a", data=kept).dump()["a"]["templates"] == [most]


@pytest.mark.covers("F-P-16", "I-3", "SEC-13")
def test_a_uri_that_is_too_long_is_of_no_template():
    claims = claims_of("a", "b")
    template(claims, "a", "x:{y}")
    short, long = "x:" + "y" * (MAX_MATCHED_CHARS - 2), "x:" + "y" * MAX_MATCHED_CHARS
    assert claims.owner(short) == "a"
    assert claims.owner(long) is None
    assert claims.emit("a", long) == f"hub.a+{long}"
    assert claims.resolve(f"hub.a+{long}") == [("a", long)]


@pytest.mark.covers("F-P-16", "I-3", "SEC-13")
def test_a_list_of_templates_takes_as_much_work_as_it_has_however_many_another_has():
    def work(theirs: int) -> int:
        claims = claims_of("a", "b")
        claims.relist("a", [], [f"x:a{i:04}{{y}}" for i in range(theirs)])
        return calls_of(lambda: claims.relist("b", [], [f"x:b{i:04}{{y}}" for i in range(20)]))

    assert work(20) == work(40)


def test_only_news_count_as_change():
    claims = claims_of("a", local=("a",))
    claims.relist("a", ["x://1", "file:///f"], ["y:{z}"])
    assert claims.changed
    claims.dump()
    claims.relist("a", ["x://1", "file:///f"], ["y:{z}"])
    claims.emit("a", "x://1")
    claims.emit("a", "y:7")
    assert not claims.changed
    claims.emit("a", "x://2")
    assert claims.changed
    claims.copy()
    assert claims.changed


def test_a_copy_goes_its_own_way():
    claims = claims_of("a", "b", local=("b",), bare="b")
    claims.emit("a", "x://1")
    twin = claims.copy()
    assert twin.emit("b", "x://1") == "hub.b+x://1"
    assert twin.emit("b", "file:///1") == "file:///1"
    twin.emit("b", "x://2")
    assert claims.owner("x://2") is None


@pytest.mark.parametrize("data", [None, [], {"a": 1}, {"a": {"exact": [1]}}, {"a": {"templates": "x"}}])
def test_a_damaged_claim_file_is_as_good_as_none(data):
    assert UriClaims.load(data).dump() == {}


def test_of_two_upstreams_with_one_claim_in_the_file_the_first_has_it():
    claims = claims_of("a", "b", data={"a": {"exact": ["x://1", "https://1"]}, "b": {"exact": ["x://1", "https://1"]}})
    assert claims.owner("x://1") == "a"
    assert claims.dump()["b"]["exact"] == ["https://1"]


# --- the invariant, by simulation ------------------------------------------------------------------------------------

UPSTREAMS = ("a", "b", "c")
ROOTS = ["x://", "x://d/", "y:", "file:///", "https://w/", "ui://", "ui://b~", "hub.a+x://", "hub.b+", "hub.zz+y:", ""]
TAILS = ["", "1", "2", "d/1", "d/e/1", "~b", "+c", "1/end"]
GAPS = ["{x}", "{+x}", "{?x}", "d/{x}", "{x}/end", "{x}{y}"]


class World:
    """Upstreams that show URIs at random, and everything hosts have been shown so far."""

    def __init__(self, chance: random.Random, local: set[str], bare: str | None) -> None:
        self.chance, self.local, self.bare = chance, local, bare
        self.claims = claims_of(*UPSTREAMS, local=local, bare=bare)
        self.shown: dict[str, set[tuple[str, str]]] = {}
        self.patterns: list[tuple[str, str, str]] = []

    def uri(self) -> str:
        return self.chance.choice(ROOTS) + self.chance.choice(TAILS)

    def saw(self, shown: str, upstream: str, original: str) -> None:
        self.shown.setdefault(shown, set()).add((upstream, original))

    def step(self) -> None:
        upstream = self.chance.choice(UPSTREAMS)
        match self.chance.randrange(4):
            case 0:
                uri = self.uri()
                self.saw(self.claims.emit(upstream, uri), upstream, uri)
            case 1:
                uris = list({self.uri() for _ in range(3)})
                texts = list({self.chance.choice(ROOTS) + self.chance.choice(GAPS) for _ in range(2)})
                shown, templates = self.claims.relist(upstream, uris, texts)
                for pair in zip(shown, uris, strict=True):
                    self.saw(pair[0], upstream, pair[1])
                self.patterns += [(shown, upstream, text) for shown, text in zip(templates, texts, strict=True)]
            case 2:
                self.claims = claims_of(
                    *UPSTREAMS, local=self.local, bare=self.bare, data=json.loads(json.dumps(self.claims.dump()))
                )
            case 3 if self.patterns:
                value = self.chance.choice(["1", "d/9", "b~q"])
                shown, upstream, text = self.chance.choice(self.patterns)
                expand = {"{x}": value, "{+x}": value, "{?x}": f"?x={value}", "{y}": value}
                original = text
                for gap, replacement in expand.items():
                    shown, original = shown.replace(gap, replacement), original.replace(gap, replacement)
                self.check(shown, upstream, original)

    def check(self, shown: str, upstream: str, original: str) -> None:
        answer = self.claims.resolve(shown)
        assert (upstream, original) in answer, (shown, upstream, original, answer)
        if not shown.startswith(("https:", "file:")):
            assert len(answer) == 1


@pytest.mark.covers("G-3")
@pytest.mark.parametrize("bare", [None, "b"])
def test_whatever_is_emitted_resolves_to_whoever_caused_it(bare):
    for seed in range(150):
        world = World(random.Random(seed), {"a", "c"}, bare)
        for _ in range(25):
            world.step()
        for shown, owners in world.shown.items():
            for upstream, original in owners:
                world.check(shown, upstream, original)
