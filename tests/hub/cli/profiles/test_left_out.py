"""Profiles that leave a new server out."""

from config.tables.profiles import Profile
from hub.cli.profiles.left_out import profiles_without
from tests.hub.cli.configuration.test_editing import Home


def test_what_is_to_be_added():
    profiles = {
        "all": Profile(),
        "some": Profile(servers=("files",)),
        "both": Profile(servers=("files",), tools=("files__*",)),
        "there": Profile(servers=("time",)),
    }
    assert list(profiles_without(profiles, "time", "time")) == [
        ("some", '"time" to {whose} `servers`'),
        ("both", '"time" to {whose} `servers` and "time__*" to {whose} `tools`'),
    ]
    assert dict(profiles_without(profiles, "time", "")) == {
        "some": '"time" to {whose} `servers`',
        "both": '"time" to {whose} `servers`',
    }
    assert dict(profiles_without(profiles, "time", "t"))["both"].endswith('"t__*" to {whose} `tools`')


def test_what_hubd_add_says_of_them(tmp_path):
    home = Home(tmp_path)
    home.write(
        '[profiles.small]\ntools = ["files__*"]\n[profiles.other]\nservers = ["files"]\n'
        '[profiles.third]\nservers = ["files"]\n[profiles.whole]\n'
    )
    said = home.run("add", "time", "--", "true")
    assert (
        'hubd: note: hosts of the profile small are not shown time: add "time__*" to its `tools`, or choose with `hubd '
        "tools --pick small`\n"
        'hubd: note: hosts of the profiles other, third are not shown time: add "time" to their `servers`, or choose '
        "with `hubd tools --pick other`\n"
    ) in said
    assert "the profile other" not in home.run("add", "files", "--", "true")
    assert "are not shown" not in home.run("add", "more", "--dry-run", "--", "true")
    assert "are not shown" not in home.run("add", "files", "--", "true", code=1)
