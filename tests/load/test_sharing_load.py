"""Five hosts that use the same eight servers run each of them once."""

import pytest

from tests.load.sharing import HOSTS, with_hubd, without_hubd

pytestmark = pytest.mark.everything


@pytest.mark.real
@pytest.mark.covers("I-5")
def test_five_hosts_share_eight_servers(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "a").mkdir()
    shared = with_hubd(tmp_path / "s")
    assert shared.servers == 8
    assert shared.processes == 8 + HOSTS + 1
    alone = without_hubd(tmp_path / "a", hosts=1)
    assert alone.servers == 8
    assert shared.tools >= alone.tools > 0
