"""Profiles that leave a new server out."""

import pytest

from config.profile_settings import Profile
from hub.cli.profiles.left_out import left_out_by, may_choose
from tests.hub.cli.test_editing import Home


@pytest.mark.parametrize(
    ("globs", "may"),
    [
        (("*",), True),
        (("files__*",), False),
        (("files__*", "time__now"), True),
        (("time__*",), True),
        (("t*",), True),
        (("*__read",), True),
        (("?ime__now",), True),
        (("times__*",), False),
        (("time",), False),
        (("!files__*",), True),
        (("!time__*",), False),
        (("!t*",), False),
        (("!time__now",), True),
        (("*", "!time__*"), False),
        (("*", "!*__now"), True),
        ((), False),
    ],
)
def test_globs_that_may_choose_a_name(globs, may):
    assert may_choose(globs, "time__") is may


def test_what_is_to_be_added():
    profiles = {
        "all": Profile(),
        "some": Profile(servers=("files",)),
        "both": Profile(servers=("files",), tools=("files__*",)),
        "there": Profile(servers=("time",)),
    }
    assert list(left_out_by(profiles, "time", "time")) == [
        ("some", '"time" to `servers`'),
        ("both", '"time" to `servers` and "time__*" to `tools`'),
    ]
    assert dict(left_out_by(profiles, "time", "")) == {"some": '"time" to `servers`', "both": '"time" to `servers`'}
    assert dict(left_out_by(profiles, "time", "t"))["both"].endswith('"t__*" to `tools`')


def test_what_hubd_add_says_of_them(tmp_path):
    home = Home(tmp_path)
    home.write('[profiles.small]\ntools = ["files__*"]\n[profiles.other]\nservers = ["files"]\n[profiles.whole]\n')
    said = home.run("add", "time", "--", "true")
    assert (
        'hubd: note: hosts of the profiles small (add "time__*" to `tools`), other (add "time" to `servers`) are not '
        "shown time; `hubd tools --pick PROFILE` changes that, too\n"
    ) in said
    assert "are not shown" not in home.run("add", "files", "--", "true")
    assert "are not shown" not in home.run("add", "more", "--dry-run", "--", "true")
    assert "are not shown" not in home.run("add", "files", "--", "true", code=1)
