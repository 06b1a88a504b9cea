"""Several authorization servers: none gets what is another's."""

import pytest

from tests.support.oauth.rig import walk
from tests.support.oauth.sign_in import Walker
from tests.support.signing_hub import signing_hub


@pytest.mark.covers("SEC-40", "A-17")
@pytest.mark.parametrize(("liar_says", "honest_says"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("lie", ["mixup", "mixup-redirect"])
def test_a_server_that_sends_browsers_to_an_honest_one_gets_no_code(oauth, tmp_path, lie, liar_says, honest_says):
    """Where neither says who it is, only addresses of their own help, and those the liar may register at the other."""
    honest = oauth.liar(None, *([] if honest_says else ["--no-iss"]))
    liar = oauth.liar(lie, "--honest", honest.issuer, *([] if liar_says else ["--no-iss"]))
    with signing_hub(tmp_path, {"honest": honest.url, "notes": liar.url}) as hub:
        assert hub.sign_in("honest").state == "signed_in"
        with hub.begun(yes=True) as begun:
            came = walk(begun.url)
            page = Walker().follow(came)
            refused = page.status == 403 or begun.outcome().state == "failed"
        assert refused
    assert [entry for entry in liar.asked("token") if entry["code"]] == []
    assert liar.asked("EVIL") == []
