"""What a server says that ran into the walls of its sandbox."""

import pytest

from upstreams.transports.stdio.sandbox.refusals import Refusal, find_refusal


def hidden(path):
    return path.startswith("/home/me")


@pytest.mark.covers("BOX-15")
@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Error: EROFS: read-only file system, open '/srv/data/x.db'", Refusal("/srv/data/x.db", "write")),
        ("PermissionError: [Errno 13] Permission denied: '/home/me/my notes'", Refusal("/home/me/my notes")),
        ("OSError: [Errno 30] Read-only file system: '/home/me/.cache'", Refusal("/home/me/.cache", "write")),
        ("cat: /home/me/.ssh/id: No such file or directory", Refusal("/home/me/.ssh/id")),
        ("Error: ENOENT: no such file or directory, stat '/home/me/src'", Refusal("/home/me/src")),
        ("Error: EACCES", Refusal("")),
        ("Error: EACCES\n  at /usr/lib/x.js:3\nbye", Refusal("")),
        ("cat: /usr/x: No such file or directory", None),
        ("ready, see https://example.com/home", None),
        ("", None),
    ],
)
def test_the_path_that_was_refused(said, found):
    assert find_refusal(said, hidden) == found
