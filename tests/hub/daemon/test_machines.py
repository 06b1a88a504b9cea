"""Hubs that sign in without a person for each server, as processes: with their own secret, with the statement of an
identity provider at which a person has signed in, or by an ID token that another program keeps."""

import json

import pytest

from hub.control.client_errors import ControlFailed
from hub.control.methods import SIGN_IN, SIGN_IN_STATUS, SIGN_OUT
from tests.hub.daemon.test_sign_ins import control, until_connected
from tests.support.commands import run_hubd
from tests.support.oauth import liar_machines
from tests.support.oauth.rig import walk_to_the_end
from tests.support.processes import free_port, running_hub
from tests.support.written import written

ITSELF = """[upstreams.notes]
url = "{url}"
[upstreams.notes.oauth]
grant = "{grant}"
issuer = "{issuer}"
client_id = "hub"
client_secret = "s3cret-of-the-hub"
"""
COMPANY = """[oauth.idp]
issuer = "{issuer}"
client_id = "hub-at-idp"
client_secret = "s3cret-at-idp"
"""


def config(liar, grant: str) -> str:
    return ITSELF.format(url=liar.url, issuer=liar.issuer, grant=grant)


def call(hub, tool: str = "notes__read") -> str:
    done = run_hubd(["call", tool, "--json", "{}"], hub.env)
    return done.stdout + done.stderr


def grants(liar) -> list[str]:
    return [each["grant"].rpartition(":")[2] for each in liar.asked("token")]


def test_client_credentials(oauth, tmp_path):
    liar = oauth.liar()
    with running_hub(tmp_path, config(liar, "client_credentials")) as hub:
        until_connected(hub)
        assert "read: done" in call(hub)
        assert grants(liar) == ["client_credentials"]
        assert "write: done" in call(hub, "notes__write"), "the scope that was missing is asked for without a person"
    log = (tmp_path / "hubd.log").read_text()
    assert not [secret for secret in liar.secrets() if secret in log]


def test_a_person_signs_in_at_the_identity_provider_once(oauth, tmp_path):
    liar, idp = oauth.liar(), oauth.liar(None, "--scope", "openid")
    text = COMPANY.format(issuer=idp.issuer) + config(liar, "id_jag")
    listen = f"127.0.0.1:{free_port()}"
    with running_hub(tmp_path, text, listen=listen) as hub:
        assert "hubd auth --idp" in call(hub)
        with control(hub) as client:
            step = client.request(SIGN_IN, idp=True)
            assert (step.issuer, step.scope, step.server_url) == (idp.issuer, "openid", idp.issuer)
            page = walk_to_the_end(step.authorization_url)
            assert "Signed in for the identity provider" in page.text
            outcome = client.further(SIGN_IN).outcome
        assert outcome.state == "signed_in", outcome.text
        until_connected(hub)
        assert "read: done" in call(hub)
        with control(hub) as client:
            states = {each.upstream: each.state for each in client.request(SIGN_IN_STATUS).accounts}
        assert states == {"": "good", "notes": "good"}
    assert grants(idp) == ["authorization_code", "token-exchange"]
    assert grants(liar) == ["jwt-bearer"]
    kept = b"".join(data for path, data in written(tmp_path) if path.suffix == ".json")
    assert not [secret for secret in (*idp.secrets(), *liar.secrets()) if secret.encode() in kept]
    with running_hub(tmp_path, text, listen=listen) as hub:
        until_connected(hub)
        assert "read: done" in call(hub)
        with control(hub) as client:
            out = client.request(SIGN_OUT).accounts
        assert [(each.upstream, each.was_signed_in) for each in out] == [("", True), ("notes", True)]
    assert len(idp.asked("authorization")) == 1


def test_an_id_token_that_another_program_keeps(oauth, tmp_path):
    liar, idp = oauth.liar(), oauth.liar()
    claims = {"iss": idp.issuer, "sub": "ci", "aud": "hub-at-idp", "exp": 4e9}
    (tmp_path / "id_token").write_text(liar_machines.unsigned("JWT", claims))
    reference = json.dumps("${file:" + str(tmp_path / "id_token") + "}")
    company = COMPANY.format(issuer=idp.issuer) + f"id_token = {reference}\n"
    (tmp_path / "id_token").chmod(0o600)
    with running_hub(tmp_path, company + config(liar, "id_jag")) as hub:
        until_connected(hub)
        assert "read: done" in call(hub)
    assert (grants(idp), grants(liar)) == (["token-exchange"], ["jwt-bearer"])


@pytest.mark.parametrize("asked", [{"name": "notes", "idp": True}, {}, {"idp": True}])
def test_a_sign_in_that_is_for_nobody(oauth, tmp_path, asked):
    text = config(oauth.liar(), "client_credentials")
    refused = pytest.raises(ControlFailed, match="identity provider")
    with running_hub(tmp_path, text) as hub, control(hub) as client, refused:
        client.request(SIGN_IN, **asked)
