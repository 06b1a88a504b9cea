"""Limits beyond which something is wrong with a server: alert rules for Prometheus; `hubd top` and the dashboard colour
by the same. Pure.
"""

from typing import Final

START_FAILURES: Final = 0.05
"""The part of its sessions that could not be opened."""
TOOL_ERRORS: Final = 0.10
"""The part of its calls that failed; those that hosts cancelled count as nothing."""
SESSION_S: Final = 5.0
"""The length of a session that half of them do not reach."""
P95_REMOTE_S: Final = 2.0
P95_LOCAL_S: Final = 0.1
"""The durations within which 95 of 100 calls stay: of a server by its URL, and of a process of this machine."""


def slow_from_s(*, is_local: bool) -> float:
    """The duration of calls beyond which a server counts as slow."""
    return P95_LOCAL_S if is_local else P95_REMOTE_S


_BY: Final = "job, instance, hubd_upstream"
_CALLS: Final = "mcp_client_operation_duration_seconds"
_SESSIONS: Final = "mcp_client_session_duration_seconds"


def _part(counter: str, some: str, all: str = "") -> str:
    """The part that `some` series of a counter are of `all`."""

    def rate(labels: str) -> str:
        return f"sum by ({_BY}) (rate({counter}{{{labels}}}[10m]))"

    return f"{rate(some)} / {rate(all)}"


def _quantile(part: float, histogram: str) -> str:
    return f"histogram_quantile({part}, sum by ({_BY}, le) (rate({histogram}_bucket[10m])))"


def _slow(limit_s: float, transport: str) -> str:
    reached = f'sum by ({_BY}) ({_SESSIONS}_count{{network_transport="{transport}"}})'
    return f"{_quantile(0.95, _CALLS)} > {limit_s:g} and on ({_BY}) {reached}"


_NOT_OPENED: Final = 'outcome="error"'
_CALLED: Final = 'mcp_method_name="tools/call"'
_FAILED: Final = f'{_CALLED}, error_type!="", error_type!="cancelled"'
_OVER: Final = f'{_CALLED}, error_type!="cancelled"'
_RULES: Final = (
    (
        "HubdServerStartsFail",
        f"{_part('hubd_upstream_connects_total', _NOT_OPENED)} > {START_FAILURES:g}",
        "{{ $value | humanizePercentage }} of the starts of {{ $labels.hubd_upstream }} fail",
    ),
    (
        "HubdToolsFail",
        f"{_part(_CALLS + '_count', _FAILED, _OVER)} > {TOOL_ERRORS:g}",
        "{{ $value | humanizePercentage }} of the calls of {{ $labels.hubd_upstream }} fail",
    ),
    (
        "HubdSessionsAreShort",
        f"{_quantile(0.5, _SESSIONS)} < {SESSION_S:g}",
        "half of the sessions with {{ $labels.hubd_upstream }} are over within {{ $value | humanizeDuration }}",
    ),
    (
        "HubdRemoteServerIsSlow",
        _slow(P95_REMOTE_S, "tcp"),
        "5 of 100 calls of {{ $labels.hubd_upstream }} take longer than {{ $value | humanizeDuration }}",
    ),
    (
        "HubdLocalServerIsSlow",
        _slow(P95_LOCAL_S, "pipe"),
        "5 of 100 calls of {{ $labels.hubd_upstream }} take longer than {{ $value | humanizeDuration }}",
    ),
)


def alert_rules() -> str:
    """The alert rules, as a file for Prometheus."""
    rules = "".join(
        f"      - alert: {name}\n        expr: |-\n          {condition}\n        for: 10m\n"
        f"        labels:\n          severity: warning\n        annotations:\n          summary: '{text}'\n"
        for name, condition, text in _RULES
    )
    return f"groups:\n  - name: hubd\n    rules:\n{rules}"
