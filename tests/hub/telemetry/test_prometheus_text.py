"""The text format of Prometheus: vectors, and pieces of bounded size."""

import pytest

from hub.telemetry.alert_rules import alert_rules, slow_from_s
from hub.telemetry.prometheus_text import LEAST_OF_SESSIONS_S, SERIES, Family, write
from hub.telemetry.tally import BOUNDS_S, Histogram


def text_of(*families):
    return b"".join(text for texts in write(families) for text in texts).decode()


def histogram_of(*durations):
    histogram = Histogram()
    for duration in durations:
        histogram.observe(duration)
    return histogram


@pytest.mark.covers("OM-4")
def test_numbers_and_labels():
    labels = (("a", 'b\\c\n"d"'), ("none", ""), ("e", "\ud800ä"))
    series = [((), 2), (labels, 0.25)]
    assert text_of(Family("x_total", "counter", "What it is.", series)) == (
        '# HELP x_total What it is.\n# TYPE x_total counter\nx_total 2\nx_total{a="b\\\\c\\n\\"d\\"",e="?ä"} 0.25\n'
    )
    assert text_of(Family("x", "gauge", "Nothing.", [])) == ""


@pytest.mark.covers("OM-4")
def test_a_histogram_has_a_line_for_each_bound_and_what_is_above():
    family = Family("h", "histogram", "How long.", [((("a", "b"),), histogram_of(0.001, 0.0011, 400))])
    lines = text_of(family).splitlines()[2:]
    assert lines[:3] == ['h_bucket{a="b",le="0.001"} 1', 'h_bucket{a="b",le="0.002"} 2', 'h_bucket{a="b",le="0.005"} 2']
    assert lines[-4:] == [
        *('h_bucket{a="b",le="300"} 2', 'h_bucket{a="b",le="+Inf"} 3', 'h_sum{a="b"} 400.0021', 'h_count{a="b"} 3')
    ]
    assert len(lines) == len(BOUNDS_S) + 3
    few = text_of(Family("h", "histogram", "x", [((), histogram_of(0.001))], LEAST_OF_SESSIONS_S)).splitlines()[2:]
    assert (few[0], few[-1], len(few)) == ('h_bucket{le="0.01"} 1', "h_count 1", len(BOUNDS_S))


@pytest.mark.covers("OM-4")
def test_no_piece_has_more_than_so_many_series_or_as_much_other_work():
    done = 0

    def series():
        nonlocal done
        for each in range(95):
            done += 1
            yield None if each % 2 else ((("n", str(each)),), each)

    before, sizes = 0, []
    for _ in write([Family("x", "gauge", "x", series()), Family("y", "gauge", "y", [((), 1)])]):
        sizes.append(done - before)
        before = done
    assert max(sizes) == SERIES
    assert done == 95


@pytest.mark.covers("OM-4")
def test_only_what_was_counted_since_is_written_anew():
    histograms = [histogram_of(0.1) for _ in range(50)]
    family = Family("h", "histogram", "x", [((("n", str(at)),), each) for at, each in enumerate(histograms)])
    first = text_of(family)
    written = [each.text[1] for each in histograms]
    assert text_of(family) == first
    assert all(each.text[1] is text for each, text in zip(histograms, written, strict=True))
    histograms[30].observe(0.2)
    text_of(family)
    assert [at for at, each in enumerate(histograms) if each.text[1] is not written[at]] == [30]
    for histogram in histograms:
        histogram.text = -1, b""
    changed = text_of(family)
    assert changed != first
    assert text_of(family) == changed


def test_limits_are_those_of_the_alerts():
    rules = alert_rules()
    assert all(f"> {limit:g} and on" in rules for limit in (slow_from_s(is_local=True), slow_from_s(is_local=False)))
    assert rules.count("- alert: ") == 5
