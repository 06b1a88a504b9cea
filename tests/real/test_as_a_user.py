"""Sign-ins by pages of the hub, as a user who is not root: a hub of root cannot tell whose a browser is.

Where the tests run as root, as in containers, these are skipped, so they run here as a user.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.everything

ROOT = Path(__file__).parents[2]
USER = "65533"
TESTS = tuple(f"tests/real/test_sign_in_{name}.py" for name in ("browser", "hosts", "each"))
LIMIT_S = 500
RIGHTS = "+dac_read_search"
"""The user may read this checkout, wherever it is, and write nothing of it."""
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
AS_USER += [f"--inh-caps={RIGHTS}", f"--ambient-caps={RIGHTS}"]


def becomes_user() -> bool:
    """True if programs can be run as the user: root of a container may lack the right."""
    return (
        shutil.which("setpriv") is not None and subprocess.run([*AS_USER, "true"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="they run by themselves")
@pytest.mark.timeout(LIMIT_S + 60)
def test_sign_ins_by_pages_as_a_user():
    if not becomes_user():
        pytest.skip("this root may not run programs as somebody else")
    pytest_of_user = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-rs", *TESTS]
    with tempfile.TemporaryDirectory(prefix="hubd-user-") as home:  # tmp_path lies below a directory of root
        os.chown(home, int(USER), int(USER))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "XDG_"))}
        kept.pop("HUBD_DURATIONS", None)
        env = {**kept, "HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [*AS_USER, *pytest_of_user], cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_S
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout[-2000:]
