"""The line of an error that names its cause."""

import pytest

from hub.cli.render.words import last_words
from upstreams.journal.error_line import telling_line
from upstreams.journal.lacking_variable import lacking_variable

NPM = """npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/nowhere
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/x.log"""

NODE = """node:internal/modules/package_json_reader:267
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/index.js
    at Object.getPackageJSONURL (node:internal/modules/package_json_reader:267:9)
    at packageResolve (node:internal/modules/esm/resolve:768:81) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v22.21.0"""

GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/x/server.py", line 3, in <module>
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/server.py", line 9, in main
    | ValueError: NOTION_TOKEN is not set
    +------------------------------------"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (NPM, "Not Found - GET https://registry.npmjs.org/nowhere"),
        (NODE, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/index.js"),
        (GROUP, "ValueError: NOTION_TOKEN is not set"),
        ("listening\nfatal: no key\nbye", "fatal: no key"),
        ("Usage: server DIR\n\nhello", "Usage: server DIR"),
        ("starting\nall is well", "all is well"),
        ("| }\n| }\n", ""),
        ("", ""),
    ],
)
def test_the_line_that_names_the_error_is_found(said, line):
    assert telling_line(said.splitlines()) == line


@pytest.mark.parametrize(
    ("said", "variable"),
    [
        ("KeyError: 'NOTES_DIR'", "NOTES_DIR"),
        ("listening\nError: please set the API_KEY\nbye", "API_KEY"),
        ("missing required environment variable GITHUB_PERSONAL_ACCESS_TOKEN", "GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("Error [ERR_REQUIRE_ESM]: require() of ES Module is required", ""),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", ""),
        ("TypeError: x is undefined", ""),
        (NODE, ""),
    ],
)
def test_the_variable_that_a_server_lacks_is_found(said, variable):
    assert lacking_variable(said) == variable


def test_an_error_is_one_line_that_no_terminal_obeys():
    assert (
        last_words(f"x exited with status 1\n{GROUP}") == "x exited with status 1: ValueError: NOTION_TOKEN is not set"
    )
    assert last_words("it \x1b[31mfell") == "it \\x1b[31mfell"
    assert last_words("x said: no key\nno key") == "x said: no key"
    assert last_words("") == ""
