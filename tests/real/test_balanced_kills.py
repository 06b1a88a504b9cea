"""Two hubs behind real balancers, with the files of systemd/: one of them ends under load, or a host leaves."""

import contextlib
import signal
from time import perf_counter
from urllib.parse import urlsplit

import pytest

from tests.real.balanced_hosts import LegacyHost, ModernHost
from tests.real.balancers import TICK, a_hub, fleet
from tests.support.attached import DEMO
from tests.support.looking import servers

pytestmark = pytest.mark.everything

HOSTS = 8
"""Of each era."""
BEFORE_S = 0.7
AFTER_S = 1.6
"""HAProxy waits a second before it tries again, when only one hub is left."""
GROWN_S = 8.5
"""That long after the store is new nothing of a hub is taken over: it might only have to say again that it lives."""


class Load:
    """Hosts of both eras that call through a balancer all the time."""

    def __init__(self, it, balancer):
        url = it.urls[balancer]
        self.modern = [ModernHost(url, it.token, f"{balancer}-modern{number}") for number in range(HOSTS)]
        self.legacy = [LegacyHost(url, it.token, f"{balancer}-legacy{number}") for number in range(HOSTS)]
        self.hosts = [*self.modern, *self.legacy]

    def __enter__(self):
        try:
            for host in self.legacy:
                host.open()
        except BaseException:
            self.__exit__()
            raise
        for host in self.hosts:
            host.start()
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.stopping.set()
        for host in self.hosts:
            host.stop()

    @property
    def calls(self):
        return [call for host in self.hosts for call in host.calls]

    @property
    def failed(self):
        return [call for call in self.calls if call.failure]


class Site:
    """A fleet whose hub `a` ends and is started again."""

    def __init__(self, it, directory):
        self.it = it
        self._directory = directory
        self._again = contextlib.ExitStack()

    def load_around(self, balancer, number):
        """Load before and after hub `a` gets a signal; the load, and when the hub was gone."""
        with Load(self.it, balancer) as load:
            TICK.wait(BEFORE_S)
            assert load.failed == []
            self.it.hubs["a"].process.signalled(number, patience_s=60)
            gone = perf_counter()
            TICK.wait(AFTER_S)
        return load, gone

    def restart(self, balancer):
        """Start `a` where it was, and wait until the balancer sends requests there again."""
        hub, said = self.it.hubs["a"], self.it.balancers[balancer].said
        again = a_hub(self._directory / "a", hub.config.read_text(), "a", urlsplit(hub.url).port)
        self.it.hubs["a"] = self._again.enter_context(again)
        seen = len(said)
        with Load(self.it, balancer) as load:
            for _ in range(1200):
                if any(line.endswith(f" 200 {self.it.address('a')}") for line in said[seen:]):
                    return load
                TICK.wait(0.05)
        raise AssertionError(f"nothing goes there any more: {said[-5:]}")

    def close(self):
        self._again.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("fleet")
    with fleet(directory, DEMO, "haproxy", "nginx") as it, contextlib.closing(Site(it, directory)) as site:
        TICK.wait(GROWN_S)
        yield site


@pytest.fixture(params=["haproxy", "nginx"])
def balancer(request, site):
    """One, whose hub `a` is there again afterwards."""
    yield request.param
    assert site.restart(request.param).failed == []


@pytest.mark.covers("F-D-03", "I-1")
def test_a_killed_hub_costs_what_was_in_flight_on_it(site, balancer):
    load, gone = site.load_around(balancer, signal.SIGKILL)
    served, failed, calls = site.it.served(), load.failed, load.calls
    print(f"\n{balancer}: {len(calls)} calls, {len(failed)} failed with the hub")  # noqa: T201
    before = {served.get(call.id) for call in calls if not call.failure and call.ended < gone}
    across = {served.get(call.id) for call in calls if not call.failure and call.began < gone < call.ended}
    # HAProxy closes the host's connection when a hub does so instead of answering, and logs nothing then; and it drops
    # lines rather than wait for who reads them.
    assert before - {None} == {"a", "b"}
    assert across - {None} == {"b"}
    assert [call for call in failed if call.began > gone or served.get(call.id, "a") != "a"] == []
    assert 0 < len(failed) <= 2 * HOSTS
    for host in load.hosts:
        assert len(host.failed) <= 1
        assert any(call.began > gone for call in host.calls), host.name


@pytest.mark.covers("F-D-01", "I-1")
def test_a_hub_that_is_stopped_costs_nothing(site, balancer):
    load, gone = site.load_around(balancer, signal.SIGTERM)
    print(f"\n{balancer}: {len(load.calls)} calls, {len(load.failed)} failed")  # noqa: T201
    assert load.failed == []
    assert all(any(call.began > gone for call in host.calls) for host in load.hosts)


@pytest.mark.covers("T-16")
@pytest.mark.parametrize("balancer", ["haproxy", "nginx"])
def test_a_host_that_leaves_cancels_its_call(site, balancer):
    host = ModernHost(site.it.urls[balancer], site.it.token, "leaving")
    with host.begun({"from": 60, "pause_s": 1}):
        await_running(site.it, 1)
    await_running(site.it, 0)


def await_running(it, number):
    """Until so many calls run at the servers of all hubs: they tell nobody."""
    for _ in range(1200):
        rows = [row for hub in it.hubs.values() for row in servers(hub.env).values()]
        if sum(row["in_flight"] for row in rows) == number:
            return
        TICK.wait(0.05)
    raise AssertionError(f"there never were {number} calls")
