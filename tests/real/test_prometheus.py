"""Debian's Prometheus scrapes a hub with the token for that and tells its counts; promtool finds nothing wrong."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.support.attached import DEMO, ready, said, upstream
from tests.support.debian import find
from tests.support.processes import DEPS, free_port, running, running_hub

pytestmark = pytest.mark.covers("OM-5")
PATIENCE_S = 60
CALLS = 20
DYING = upstream("dying", {"on": {"tools/call:die": [["exit", 3]]}})
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: hubd
    authorization: {{credentials_file: hubd.token}}
    static_configs: [{{targets: ["{address}"]}}]
"""


def program(name):
    if (found := find(name, DEPS / "prometheus")) is None:
        pytest.skip(f"{name} is neither unpacked nor installed: make deps")
    return str(found.path)


def get(url, token=None):
    """Status and body of an answer."""
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub that was called, with each outcome that is told here."""
    with running_hub(tmp_path_factory.mktemp("hub"), DEMO + DYING) as hub:
        with ready(hub) as host:
            names = ["demo__echo"] * CALLS + ["demo__fail"] * 3 + ["demo__nothing"] * 2 + ["dying__die"]
            for id, name in enumerate(names, 10):
                host.ask(id, "tools/call", {"name": name, "arguments": {"text": "x"} if "echo" in name else {}})
                assert host.receive()["id"] == id
        yield hub


def address(hub):
    return hub.url.split("/")[2]


def check(*command, text=""):
    """Run promtool, which must have nothing to say but that all is well."""
    done = subprocess.run(
        [program("promtool"), "check", *map(str, command)], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_the_metrics_are_as_promtool_wants_them(hub):
    token = said(hub, "token", "--metrics").strip()
    for bearer, expected in ((None, 401), ("x" * 43, 401), (token, 200), (hub.token, 200)):
        status, text = get(f"http://{address(hub)}/metrics", bearer)
        assert status == expected
    assert check("metrics", text=text) == ""
    assert get(f"http://{address(hub)}/healthz", token)[0] == 401
    printed = said(hub, "metrics")
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert names == {line.split()[2] for line in printed.splitlines() if line.startswith("# TYPE")}


def test_the_rules_are_as_promtool_wants_them(hub, tmp_path):
    (tmp_path / "rules.yml").write_text(said(hub, "metrics", "--rules"))
    assert "SUCCESS: 5 rules found" in check("rules", tmp_path / "rules.yml")


def series(name, each_minute, **labels):
    """A counter of one server that rises by so much each minute."""
    labels = {"job": "hubd", "instance": "here"} | labels
    text = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{text}}}", "values": f"0+{each_minute}x60"}


def buckets(name, each_minute, **labels):
    """A histogram of durations, by bounds."""
    return [series(f"{name}_bucket", number, le=bound, **labels) for bound, number in each_minute.items()]


@pytest.mark.covers("OM-8")
def test_alerts_fire_for_what_is_wrong_and_for_nothing_else(hub, tmp_path):
    connects, calls = "hubd_upstream_connects_total", "mcp_client_operation_duration_seconds"
    sessions = "mcp_client_session_duration_seconds"
    of = {"mcp_method_name": "tools/call", "gen_ai_tool_name": "t"}
    given = []
    for name, failed, slow in (("good", 4, 4), ("bad", 20, 20)):
        up = {"hubd_upstream": name}
        given += [series(connects, 100 - failed, **up, outcome="ok"), series(connects, failed, **up, outcome="error")]
        given += [series(f"{calls}_count", 100 - failed, **up, **of)]
        given += [series(f"{calls}_count", 50, **up, **of, error_type="cancelled")]
        given += [series(f"{calls}_count", failed, **up, **of, error_type="tool_error")]
        given += buckets(sessions, {"5": 2 * failed, "+Inf": 100} if name == "good" else {"2": 90, "+Inf": 100}, **up)
        for place, transport, limit in (("here", "pipe", "0.1"), ("there", "tcp", "2")):
            where = {"hubd_upstream": f"{name}-{place}"}
            given += buckets(calls, {limit: 100 - slow, "5": 100, "+Inf": 100}, **where, **of)
            given += [series(f"{sessions}_count", 1, **where, network_transport=transport)]
    alerts = {
        "HubdServerStartsFail": ("bad", "20% of the starts of bad fail"),
        "HubdToolsFail": ("bad", "20% of the calls of bad fail"),
        "HubdSessionsAreShort": ("bad", "half of the sessions with bad are over within 1.111s"),
        "HubdLocalServerIsSlow": ("bad-here", "5 of 100 calls of bad-here take longer than 3.775s"),
        "HubdRemoteServerIsSlow": ("bad-there", "5 of 100 calls of bad-there take longer than 4.25s"),
    }
    tests = []
    for alert, (name, text) in alerts.items():
        labels = {"severity": "warning", "job": "hubd", "instance": "here", "hubd_upstream": name}
        expected = [{"exp_labels": labels, "exp_annotations": {"summary": text}}]
        tests.append({"eval_time": "40m", "alertname": alert, "exp_alerts": expected})
    (tmp_path / "rules.yml").write_text(said(hub, "metrics", "--rules"))
    groups = [{"interval": "1m", "input_series": given, "alert_rule_test": tests}]
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "tests": groups}))
    argv = [program("promtool"), "test", "rules", "tests.yml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_tells_the_counts(hub, tmp_path):
    (tmp_path / "hubd.token").write_text(said(hub, "token", "--metrics"))
    (tmp_path / "rules.yml").write_text(said(hub, "metrics", "--rules"))
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(address=address(hub)))
    url = f"http://127.0.0.1:{free_port()}"
    argv = [program("prometheus"), f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    argv += [f"--web.listen-address={url.removeprefix('http://')}"]
    with running(argv, tmp_path / "prometheus.log", merged=True) as prometheus:
        prometheus.wait_for("Server is ready to receive web requests")

        def ask(query):
            _, text = get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
            return {tuple(each["metric"].values()): each["value"][1] for each in json.loads(text)["data"]["result"]}

        while not ask("up == 1"):  # it scrapes each second
            pass
        count = "mcp_client_operation_duration_seconds_count"
        assert ask(f"sum by (gen_ai_tool_name, error_type) ({count}{{mcp_method_name='tools/call'}})") == {
            ("echo",): str(CALLS),
            ("tool_error", "fail"): "3",
            ("upstream_lost", "die"): "1",
        }
        asked = ask("sum by (error_type) (mcp_server_operation_duration_seconds_count{mcp_method_name='tools/call'})")
        assert asked == {(): str(CALLS), ("tool_error",): "3", ("-32602",): "2", ("upstream_lost",): "1"}
        assert list(ask("histogram_quantile(0.5, sum by (le) (mcp_client_operation_duration_seconds_bucket))").values())
        assert ask("hubd_upstream_state{hubd_upstream='demo', state='connected'} == 1")
        _, text = get(f"{url}/api/v1/rules")
        [group] = json.loads(text)["data"]["groups"]
        assert len(group["rules"]) == 5
        assert not [rule["lastError"] for rule in group["rules"] if rule.get("lastError")]
