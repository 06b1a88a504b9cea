"""Lies of authorization servers and upstreams, told to a whole hub: each ends as the rig's list of them says."""

import pytest

from hub.control.client_errors import ControlFailed
from tests.support.oauth.rig import OAuthRig, walk, walk_to_the_end
from tests.support.signing_hub import age, signing_hub


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A hub and a server, at which each test signs in anew."""
    directory = tmp_path_factory.mktemp("lies")
    with OAuthRig(directory) as rig:
        liar = rig.liar()
        (directory / "hub").mkdir()
        with signing_hub(directory / "hub", {"notes": liar.url}) as hub:
            hub.until_refused()
            yield hub, liar


@pytest.fixture
def told(here):
    """The two, signed out, and the server honest at the end."""
    hub, liar = here
    yield hub, liar
    liar.tell(None)
    hub.sign_out()


def codes(liar):
    """Requests that had a code with them, at the server and at the attacker."""
    return sum(bool(entry.get("code")) for entry in liar.asked("token")) + len(liar.asked("EVIL"))


@pytest.mark.covers("A-17", "SEC-40")
@pytest.mark.parametrize("lie", ["auth-no-state", "auth-wrong-state", "auth-code-twice"])
def test_an_answer_that_belongs_to_no_sign_in(told, lie):
    """Nothing is sent anywhere, and the sign-in waits for its own answer."""
    hub, liar = told
    with hub.begun(yes=True) as begun:
        before = codes(liar)
        liar.tell(lie)
        page = walk_to_the_end(begun.url)
        assert page.status == 403, page.text
        with pytest.raises(ControlFailed):
            hub.finish(walk(begun.url))
        assert codes(liar) == before
        liar.tell(None)
        walk_to_the_end(begun.url)
        assert begun.outcome().state == "signed_in"


@pytest.mark.covers("A-17", "SEC-40")
@pytest.mark.parametrize(
    ("lie", "due"),
    [
        ("auth-wrong-iss", "came from another authorization server than {issuer}"),
        ("auth-no-iss", "does not say who sent it, though {issuer} always does"),
        ("auth-iss-slash", "came from another authorization server than {issuer}"),
        ("auth-error-wrong-iss", "came from another authorization server than {issuer}"),
        ("auth-error-html", "{issuer} refused: access_denied ("),
    ],
)
def test_an_answer_that_ends_a_sign_in(told, lie, due):
    hub, liar = told
    with hub.begun(yes=True) as begun:
        before = codes(liar)
        liar.tell(lie)
        page = walk_to_the_end(begun.url)
        outcome = begun.outcome()
        assert outcome.state in ("failed", "denied")
        assert due.format(issuer=liar.issuer) in outcome.text
        for said in (page.text, outcome.text):
            assert "555-PHISH" not in said
            assert "\x1b" not in said
        assert "<script" not in page.text
        assert codes(liar) == before
        assert hub.call("notes__read").is_error


@pytest.mark.parametrize(
    ("lie", "due"),
    [
        ("tok-200-error", "bad_verification_code"),
        ("tok-no-access", "{issuer}"),
        ("tok-type-mac", "{issuer}"),
        ("tok-html", "{issuer}"),
        ("tok-redirect", "{issuer}"),
    ],
)
def test_no_tokens(told, lie, due):
    hub, liar = told
    liar.tell(lie)
    evil = liar.asked("EVIL")
    outcome = hub.sign_in_by_page(yes=True)
    assert outcome.state == "failed"
    assert due.format(issuer=liar.issuer) in outcome.text
    assert "doctype" not in outcome.text
    assert liar.asked("EVIL") == evil == []
    assert hub.call("notes__read").is_error


@pytest.mark.parametrize(
    ("lie", "has_end", "scope"),
    [
        ("tok-type-lower", True, "mcp"),
        ("tok-expires-string", True, "mcp"),
        ("tok-expires-negative", True, "mcp"),
        ("tok-no-expires", False, "mcp"),
        ("tok-more-scope", True, "mcp admin"),
        ("tok-form-encoded", True, "mcp"),
    ],
)
def test_tokens_in_another_form(told, lie, has_end, scope):
    hub, liar = told
    liar.tell(lie)
    renewed = liar.refreshes()
    outcome = hub.sign_in_by_page(yes=True)
    assert outcome.state == "signed_in", outcome.text
    assert (outcome.scope, outcome.until is not None) == (scope, has_end)
    liar.tell(None)
    assert hub.call().is_good
    assert hub.account().scope == scope
    assert (liar.refreshes() > renewed) == (lie == "tok-expires-negative")


@pytest.mark.parametrize("lie", ["tok-needs-post", "reg-secret-for-none"])
def test_another_method_of_proving_the_client_at_the_next_sign_in(oauth, tmp_path, lie):
    """A code that may be spent is not sent twice; the method that works is remembered."""
    liar = oauth.liar(lie)
    with signing_hub(tmp_path, {"notes": liar.url}) as hub:
        states = [hub.sign_in(yes=True).state for _ in range(2)]
        assert states == ["failed", "signed_in"]
        assert hub.call().is_good
    first, last = [entry["how"] for entry in liar.asked("token") if entry["code"]]
    assert (first, last) == (("basic", "post") if lie == "tok-needs-post" else ("none", "basic"))


def test_another_method_of_showing_a_configured_secret_at_the_next_sign_in(oauth, tmp_path):
    liar = oauth.liar("tok-needs-post", "--no-dcr")
    settings = f'oauth = {{ client_id = "hub", client_secret = "s3", issuer = "{liar.issuer}" }}'
    with signing_hub(tmp_path, {"notes": liar.url}, notes=settings) as hub:
        assert [hub.sign_in(yes=True).state for _ in range(3)] == ["failed", "signed_in", "signed_in"]
        assert hub.call().is_good
    assert [entry["how"] for entry in liar.asked("token") if entry["code"]] == ["basic", "post", "post"]


def test_an_endpoint_elsewhere_gets_the_code_as_the_metadata_say(oauth, tmp_path):
    liar = oauth.liar("meta-token-elsewhere")
    with signing_hub(tmp_path, {"notes": liar.url}) as hub:
        assert hub.sign_in().state == "failed"
    assert {entry["what"] for entry in liar.asked("EVIL")} == {"EVIL POST /token"}


@pytest.mark.covers("SEC-42", "F-R-01", "F-R-22")
@pytest.mark.parametrize(
    ("lie", "renewals", "due"),
    [
        ("ref-invalid-grant", 1, '"hubd auth notes"'),
        ("ref-empty-400", 1, "renew"),
        ("ref-500", 1, "renew"),
        ("ref-lost", 1, "renew"),
        ("res-401-always", 1, "refuses (401) the token"),
        ("res-401-fresh", 1, "refuses (401) the token"),
    ],
)
def test_a_token_that_is_refused_and_no_other_that_helps(oauth, tmp_path, lie, renewals, due):
    """Nobody hears of it in a loop: one renewal at most, and words that say what there is to do."""
    liar = oauth.liar()
    with signing_hub(tmp_path, {"notes": liar.url}) as hub:
        assert hub.sign_in().state == "signed_in"
    age(tmp_path)
    with signing_hub(tmp_path, {"notes": liar.url}) as hub:
        assert hub.call().is_good
        liar.tell(lie)
        liar.expire()
        called = hub.call()
        assert called.is_error
        assert due in called.text
        asked = len(liar.asked("mcp"))
        assert hub.call().is_error
        assert liar.refreshes() <= renewals + (lie in ("ref-500", "ref-lost"))
        assert len(liar.asked("mcp")) <= asked + 2
    assert not liar.asked("EVIL")


@pytest.mark.covers("F-R-02")
def test_scopes_that_no_sign_in_gives_are_no_loop(oauth, tmp_path):
    liar = oauth.liar()
    with signing_hub(tmp_path, {"notes": liar.url}) as hub:
        assert hub.sign_in().state == "signed_in"
        liar.tell("res-403-loop")
        before = len(liar.asked("authorization"))
        called = [hub.call() for _ in range(4)]
        assert all(each.is_error for each in called)
        assert "mcp" in called[-1].text
        assert len(liar.asked("authorization")) == before
