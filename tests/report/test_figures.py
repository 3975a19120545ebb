"""What the figures draw, against the audit; what they leave out; how they are compiled."""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from typing import Any

import pytest
import vl_convert

from scotoma.report.figures import Figure
from scotoma.report.figures.drawing import drawn
from scotoma.report.figures.figure import FigureTable
from tests.report.drawing import figures, frontier, readable
from tests.report.reading import HOSTILE

pytestmark = pytest.mark.slow

SLOTS = [
    "gate", "rates", "taxicab", "over_index", "slices", "variance", "run_to_run", "frontier",
]  # fmt: skip
COSTS = {
    "compressed_bytes": 2_500_000,
    "latency": {"1": {"median_ms": 1.5, "low_ms": 1.25, "high_ms": 2.0}},
}


def measured(audit) -> dict[str, Any]:
    return {"frontier": frontier(audit.content, audit.gate, {"prune-0.9": COSTS})}


@pytest.fixture(scope="module")
def plots(audit) -> dict[str, Figure]:
    return figures(readable(audit.content), audit.gate, measured(audit))


def rows_of(spec: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in spec["data"]["values"]]


def test_every_slot_has_its_figure_in_order(plots):
    assert list(plots) == SLOTS
    for slug, plot in plots.items():
        assert plot.slug == slug
        assert plot.title
        assert plot.summary.endswith((".", "measured."))
        assert plot.table.rows


def test_nothing_judged_and_nothing_measured_leave_their_slots_empty(audit):
    found = figures(readable(audit.content), None, None)
    assert list(found) == [slot for slot in SLOTS if slot not in ("gate", "frontier")]


def test_a_test_stands_at_its_interval_over_its_limit_and_an_untested_one_nowhere(audit, plots):
    found = rows_of(plots["gate"].spec)
    places = {(row[0], row[1]): row for row in found if not row[1].endswith("more that pass")}
    tests = {(v["name"], t["where"]): t for v in audit.gate["variants"] for t in v["tests"]}
    assert places.keys() <= tests.keys()
    left_out = tests.keys() - places.keys()
    assert {tests[key]["verdict"] for key in left_out} <= {"NOT JUDGED", "PASS"}
    low, high = axis(plots["gate"].spec)
    tested = 0
    for key, (_, _, verdict, *three, _, _, said) in places.items():
        test = tests[key]
        assert verdict == test["verdict"]
        assert said.startswith(verdict)
        if test["decided_by"] is None:
            assert three == [None, None, None]
            continue
        tested += 1
        interval, bound = test["decided_by"]["interval"], test["decided_by"]["margin"]
        expected = [min(max(interval[k] / bound, low), high) for k in ("value", "low", "high")]
        assert three == pytest.approx(expected, rel=1e-5)
    assert 0 < tested <= len(places) < len(tests)


def axis(spec: dict[str, Any]) -> list[float]:
    scales = [layer["encoding"]["x"].get("scale") for layer in spec["layer"]]
    (domain,) = (scale["domain"] for scale in scales if scale)
    return list(domain)


def test_tests_that_pass_with_room_share_a_row_and_do_not_stretch_the_axis(audit):
    gate = copy.deepcopy(audit.gate)
    (judged,) = (v for v in gate["variants"] if v["name"] == "prune-0.5")
    passed = next(t for t in judged["tests"] if t["decided_by"])
    interval = passed["decided_by"]["interval"]

    def another(at: int) -> dict[str, Any]:
        ends = {"value": 0.0, "low": -0.9 * at, "high": 0.001 * at}
        decided = {**passed["decided_by"], "margin": 0.1, "interval": {**interval, **ends}}
        return {**passed, "verdict": "PASS", "where": f"error {at}", "decided_by": decided}

    judged["tests"] = [another(at) for at in range(1, 41)]
    gate["variants"] = [judged]
    plot = figures(readable(audit.content), gate, None)["gate"]
    rows = rows_of(plot.spec)
    assert [row[1] for row in rows] == ["error 40", "error 39", "error 38", "37 more that pass"]
    assert rows[-1][3:6] == pytest.approx([0.0, -2.0, 0.37])  # the farthest ends of the 37
    assert axis(plot.spec) == [-2.0, 1.5]


def test_rates_of_each_group_are_drawn_once_dense_and_compressed(audit, plots):
    found = rows_of(plots["rates"].spec)
    groups, variants = audit.content["groups"], audit.content["variants"]
    metrics = {row["metric"] for row in audit.content["subgroups"]["prune-0.9"] if not row["class"]}
    assert len(found) == len(groups) * (len(variants) - 1) * len(metrics)
    worst = next(
        row
        for row in audit.content["subgroups"]["prune-0.9"]
        if (row["group"], row["metric"], row["class"]) == ("side=b", "error", None)
    )
    label = f"b · n {groups[2]['n']:,}"
    (shown,) = (row for row in found if row[:3] == ("prune-0.9", "error", label))
    both = [100 * worst[p][k] for p in ("dense", "compressed") for k in ("value", "low", "high")]
    assert shown[3:9] == pytest.approx(both, rel=1e-5)
    assert shown[9] == f"{100 * worst['absolute']['value']:+.2f}"


def test_what_cannot_be_estimated_has_no_place_and_its_reason_in_the_table(audit):
    content = copy.deepcopy(audit.content)
    row = next(r for r in content["subgroups"]["prune-0.9"] if r["group"] == "side=b")
    for part in ("compressed", "absolute"):
        row[part] |= {"value": None, "low": None, "high": None, "reason": "carried by 3 examples"}
    rates = figures(readable(content), None, None)["rates"]
    (shown,) = (r for r in rows_of(rates.spec) if r[0] == "prune-0.9" and r[2].startswith("b · n"))
    assert shown[6:] == (None, None, None, "not estimable")
    (told,) = (r for r in rates.table.rows if r[:2] == ("prune-0.9", "b"))
    assert told[4] == told[5] == "carried by 3 examples"


def test_over_index_is_the_share_among_cies_over_the_share_in_the_data(audit, plots):
    for name, _, share, ratio, *_ in rows_of(plots["over_index"].spec):
        entry = next(
            row
            for row in audit.content["divergence"][name]["over_index"]
            if _training_share(audit, row["attribute"]) == pytest.approx(share / 100, abs=1e-4)
        )
        if ratio is not None:
            assert ratio == pytest.approx(
                entry["share_in_flagged"] / entry["share_in_data"], abs=1e-3
            )


def _training_share(audit, key: str) -> float:
    (group,) = (g for g in audit.content["groups"] if g["key"] == key)
    return group["train"] / audit.content["examples"]["train"]


def test_frontier_marks_what_was_not_measured_as_missing(plots):
    *_, size, latency = (rows_of(panel) for panel in plots["frontier"].spec["concat"])
    assert {row[0]: row[2] for row in size} == {
        "dense": None, "prune-0.5": None, "prune-0.9": 2.5, "int8-dynamic": None
    }  # fmt: skip
    assert [row[2:] for row in latency if row[0] == "prune-0.9"] == [(1.5, 1.25, 2.0)]


def test_one_model_a_side_has_no_spread(make_audit):
    audit = make_audit(members=1, sparsities=(0.9,))
    found = figures(readable(audit.content), audit.gate, None)
    assert "variance" not in found
    for plot in found.values():
        drawn(plot)


def test_names_are_values_and_never_fields(make_audit):
    audit = make_audit(classes=(HOSTILE, 'a.b[0]"\\', "owl"), values=(HOSTILE + "1", "x" * 300))
    for plot in figures(readable(audit.content), audit.gate, measured(audit)).values():
        compiled = drawn(plot).vega
        assert "<" not in compiled
        for path, text in leaves(json.loads(compiled)):
            if path[-1] in ("field", "as", "groupby"):
                assert re.fullmatch(r'[A-Za-z0-9_.]+|datum\["[a-z0-9_]+"\]', text), path


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    elif isinstance(value, str):
        yield path, value


def test_a_drawing_is_the_same_each_time_and_its_colours_are_the_pages(plots, monkeypatch):
    monkeypatch.setattr(vl_convert, "vega_to_svg", vl_convert.vega_to_svg.__wrapped__)
    for plot in plots.values():
        once = drawn(plot)
        assert once == drawn(plot)
        # An id would clash with the next drawing's, and the page's policy stops style attributes.
        assert not re.search(r"\s(?:id|style|on\w+)=", once.svg)
        colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', once.svg))
        assert {colour for colour in colours if not colour.startswith("var(--figure-")} <= {
            "none",
            "transparent",
        }, plot.slug


def test_a_name_with_any_control_separator_or_format_character_is_drawn():
    odd = [
        chr(c) for c in range(0x3100) if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zl", "Zp")
    ]
    names = [
        f"a{one}b" for one in [*odd, "\ufeff", "\ufffe", "\uffff", "'", '"', "\\", "`", "${x}"]
    ]
    spec = {
        "data": {"values": [{"c0": name} for name in names]},
        "mark": "point",
        "transform": [{"filter": {"field": "c0", "oneOf": names}}],
        "encoding": {"y": {"field": "c0", "sort": names, "scale": {"domain": names}}},
    }
    plot = Figure("odd", "t", "s", spec, FigureTable("c", ("name",), (("x",),)))
    assert drawn(plot).svg.startswith("<svg ")
