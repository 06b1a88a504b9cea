"""What a publisher wrote does not become the user's word: beside a reference in an address, nor by an update."""

import pytest

from tests.config.registry.test_hostile import TYPED, named, npm, oci, remote, run

NOT_TO_BE_ASKED = "https://169.254.169.254"
REQUIRED = {"isRequired": True}


def updated(home, recorded, old, new, *options, code=0):
    """Add the old version, update to the new one, and give its settings."""
    recorded.add(old | {"version": "1.0.0"})
    home.run("add", "io.x/y", "--yes", "--disabled", *options)
    recorded.add(new | {"version": "2.0.0"})
    home.run("update", "y", "--yes", code=code)
    return home.upstreams()["y"]


@pytest.mark.parametrize(
    ("url", "variable", "said"),
    [
        ("https://{t}@169.254.169.254/mcp", REQUIRED | {"isSecret": True}, "s3cret"),
        ("https://{t}@169.254.169.254/mcp", REQUIRED, "${secret:A}"),
        ("https://169.254.169.254:{t}/mcp", REQUIRED, "${secret:A}"),
        ("https://169.254.169.{t}/mcp", REQUIRED, "${secret:A}"),
    ],
)
def test_a_reference_beside_a_host_does_not_make_it_ones_own(home, recorded, url, variable, said):
    recorded.add(remote(url=url, variables={"t": variable}))
    assert "is not taken" in home.run("add", "io.x/y", "--yes", "--input", f"t={said}", code=1)
    assert not home.upstreams()


def test_a_host_that_is_ones_own_reference_is_taken(home, recorded):
    recorded.add(remote(url="https://{t}/mcp", variables={"t": REQUIRED}))
    home.run("add", "io.x/y", "--yes", "--disabled", "--input", "t=${env:HOST_OF_IT}")
    assert home.upstreams()["y"]["url"] == "https://${env:HOST_OF_IT}/mcp"


def test_an_update_brings_no_reference_to_life(home, recorded):
    """The escaped default stands behind a `$`, where the old version could be read as ending one answer earlier."""
    variables = {"a": REQUIRED | {"default": "${cmd:id}"}, "b": REQUIRED | {"default": "q"}}
    old, new = (
        npm(environmentVariables=[{"name": "X", "value": value, "variables": variables}])
        for value in ("{a}${b}", "{a} {b}")
    )
    text = updated(home, recorded, old, new)["env"]["X"]
    assert "${" not in text.replace("$${", "")


def test_what_was_chosen_for_something_else_is_no_address_after_an_update(home, recorded):
    variables = {"base": REQUIRED | {"choices": ["https://1.1.1.1", NOT_TO_BE_ASKED]}}
    old, new = (remote(url=url, variables=variables) for url in ("https://127.0.0.1/{base}", "{base}/mcp"))
    updated(home, recorded, old, new, "--input", f"base={NOT_TO_BE_ASKED}", code=1)


def test_what_was_typed_for_something_else_is_no_address_after_an_update(home, recorded):
    old, new = (remote(url=url, variables={"base": REQUIRED}) for url in ("https://127.0.0.1/{base}", "{base}/mcp"))
    updated(home, recorded, old, new, "--input", f"base={NOT_TO_BE_ASKED}", code=1)


def test_an_address_that_was_typed_is_kept_by_an_update(home, recorded):
    old, new = (remote(url=url, variables={"base": REQUIRED}) for url in ("{base}/mcp", "{base}/v2"))
    found = updated(home, recorded, old, new, "--input", "base=https://10.0.0.1")
    assert found["url"] == "https://10.0.0.1/v2"


def test_what_was_said_for_something_else_opens_no_folder_after_an_update(home, recorded):
    mount = named("--mount", "type=bind,src={p},dst=/x", variables={"p": TYPED["p"]})
    old = oci(environmentVariables=[{"name": "p", "isRequired": True, "choices": ["/"]}])
    found = updated(home, recorded, old, oci(**run(mount)), "--input", "p=/", code=2)
    assert "--mount" not in found["args"]
