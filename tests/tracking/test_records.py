"""What MLflow is to hold of an audit, without MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_metric_name

from scotoma.numbers import undefined
from scotoma.run import Run, read_json
from scotoma.tracking.records import RunRecord, metric_names
from tests.helpers.audits import rows_at
from tests.tracking.names import short
from tests.tracking.typed import audit_records, member_records, worst_change

Rows = list[dict[str, Any]]
VARIANTS = ["dense", "prune-0.9", "int8-static"]
RECIPE = {"steps": 40}
GATE = {
    "verdict": "FAIL",
    "variants": [
        {"name": "prune-0.9", "verdict": "UNSURE", "sentences": ["Too few models."]},
        {"name": "int8-static", "verdict": "FAIL", "sentences": ["Error rises."]},
    ],
}


@pytest.fixture
def run(folder: Callable[..., Run], tmp_path: Path) -> Run:
    return folder(tmp_path / "run", "pure")


@pytest.fixture
def audit(run: Run, audit_of: Callable[[Run], dict[str, Any]]) -> dict[str, Any]:
    return audit_of(run)


def variant(audit: dict[str, Any], name: str, gate: Any = None) -> RunRecord:
    _, records = audit_records(audit, gate)
    (found,) = (record for record in records if record.tags["scotoma.variant"] == name)
    return found


def members(run: Run, audit: dict[str, Any]) -> dict[str, RunRecord]:
    manifests = {name: read_json(run.population(name) / "manifest.json") for name in VARIANTS}
    return {short(record.name): record for record in member_records(audit, RECIPE, manifests)}


def numbers(record: RunRecord) -> dict[str, float]:
    """Its metrics but for curves, each there once."""
    found = {name: value for name, value, step in record.metrics if step == 0}
    assert len(found) == sum(step == 0 for _, _, step in record.metrics)
    return found


# --- names that a person reads --------------------------------------------------------------------


def test_runs_are_called_by_date_variant_and_verdict(audit: dict[str, Any]) -> None:
    whole, variants = audit_records(audit, GATE)
    assert whole.name == "2027-03 · FAIL"
    names = ["2027-03 · int8-static · FAIL", "2027-03 · prune-0.9 · UNSURE", "2027-03 · dense"]
    assert [record.name for record in variants] == names
    assert len({record.key() for record in (whole, *variants)}) == 4


def test_the_first_metrics_are_named_for_a_reader_and_all_others_are_details(
    audit: dict[str, Any],
) -> None:
    found = variant(audit, "prune-0.9", GATE)
    names = [name for name, _, _ in found.metrics]
    first = [name for name in names if "/" not in name]
    assert names[: len(first)] == first
    assert 20 <= len(first) <= 25
    assert first[:9] == [
        f"{name}{side}"
        for name in ("error_rise_worst", "accuracy", "cie_excess")
        for side in ("", "_low", "_high")
    ]
    values = numbers(found)
    assert values["error_rise_worst"] == pytest.approx(0.07)
    assert values["accuracy"] == 0.8
    top1 = audit["accuracy"]["prune-0.9"]["top1"]
    assert (values["accuracy_low"], values["accuracy_high"]) == (top1["low"], top1["high"])
    assert values["cie_excess"] == 0.06
    assert values["error_worst"] == 0.2
    assert values["error_gap_worst"] == pytest.approx(0.04)
    assert values["tests_failed"] == 0
    details = {name for name in names if "/" in name}
    assert all(name.startswith("detail/") for name in details)
    assert values["detail/sex is male and age is old/error/rise_relative"] == 0.7
    assert values["detail/sex is male/fpr/rise"] == pytest.approx(-0.005)
    assert values["detail/age is old/error/rise_relative_low"] < 0.9
    assert values["detail/divergence/cie/count"] == 55
    gap = "detail/gaps/sex/sex is female/sex is male/error/gap"
    assert values[gap] == pytest.approx(0.03)
    dense = numbers(variant(audit, "dense", GATE))
    assert {name for name in dense if "/" not in name} == {
        "accuracy", "accuracy_low", "accuracy_high",
    }  # fmt: skip


def test_what_has_no_interval_is_no_metric(audit: dict[str, Any]) -> None:
    """P-values, counts and the number selected are rows for tables, which nobody charts."""
    counted = {"value": 40.0, "n": 250, "reason": "counted among these examples"}
    facts = {"attribute": "sex", "facet": "sex=male"}
    address = {"variant": "prune-0.9", "metric": "selected", "facts": facts}
    rate = audit["rows"]["gaps"][2]["number"]
    audit["rows"]["clarify"] = rows_at(address, {"selected": counted, "rate": rate})
    values = numbers(variant(audit, "prune-0.9", GATE))
    of_numbers = {name for name in values if name.startswith("detail/")} - {
        "detail/divergence/cie/count", "detail/tests/unsure",
    }  # fmt: skip
    ends = {name for name in of_numbers if name.endswith(("_low", "_high"))}
    named = of_numbers - ends
    assert "detail/clarify/sex/sex is male/selected/rate" in named
    assert ends == {f"{name}{end}" for name in named for end in ("_low", "_high")}


def test_no_name_is_a_digest_and_mlflow_takes_each(audit: dict[str, Any], hostile: Rows) -> None:
    audit["subgroups"]["prune-0.9"] = hostile
    for record in audit_records(audit, GATE)[1]:
        for name, _, _ in record.metrics:
            _validate_metric_name(name)
            assert not re.search(r"[0-9a-f]{12}", name)


def test_parameters_are_true_or_absent(audit: dict[str, Any]) -> None:
    int8 = variant(audit, "int8-static", GATE).params
    assert int8 == {
        "verdict": "FAIL", "members": 2, "sparsity": 0.0, "bits": 8,
        "worst_group": "sex=male,age=old", "worst_rise": int8["worst_rise"],
    }  # fmt: skip
    assert re.fullmatch(r"\+7\.\d\d points \[\+\d\.\d\d, \+\d+\.\d\d\]", int8["worst_rise"])
    audit["variants"][2] |= {"sparsity": None, "bits": None}  # a table of predictions
    assert {"sparsity", "bits"}.isdisjoint(variant(audit, "int8-static", GATE).params)
    assert variant(audit, "dense").params == {"members": 2, "sparsity": 0.0, "bits": 32}


def test_the_audit_has_the_headline_of_the_variant_that_decides(audit: dict[str, Any]) -> None:
    whole, variants = audit_records(audit, GATE)
    decides = variants[0]
    assert whole.params["variant"] == "int8-static"
    assert (whole.params["verdict"], whole.params["examples"]) == ("FAIL", 500)
    assert whole.params["worst_rise"] == decides.params["worst_rise"]
    assert whole.metrics == [one for one in decides.metrics if "/" not in one[0]]
    note = whole.tags["mlflow.note.content"]
    assert note.startswith("**FAIL** pure")
    assert "- **UNSURE** prune-0&#46;9: Too few models&#46;" in note


def test_tags_are_few_and_say_where_the_audit_lies(run: Run, audit: dict[str, Any]) -> None:
    for record in (*audit_records(audit, GATE)[0:1], *audit_records(audit, GATE)[1]):
        assert record.tags["scotoma.audit"] == run.config.digest()
        assert record.tags["scotoma.place"] == "s3://b/run"
        # MLflow adds the run's name, its user and its parent; Kubeflow and the data two each.
        assert len(record.tags) + 7 <= 20
    for record in members(run, audit).values():
        assert len(record.tags) + 7 <= 20


def test_what_is_undefined_is_no_metric_and_the_description_says_so(audit: dict[str, Any]) -> None:
    reason = "undefined (no positives in group 'men\x00')"
    audit["divergence"]["prune-0.9"]["cie"]["excess"] = undefined(reason, n=0, members=2).as_dict()
    audit["subgroups"]["prune-0.9"][1]["relative"] |= {
        "value": float("inf"), "low": None, "high": None,
    }  # fmt: skip
    found = variant(audit, "prune-0.9")
    assert numbers(found)["accuracy_low"] == audit["accuracy"]["prune-0.9"]["top1"]["low"]
    assert "cie_excess" not in numbers(found)
    assert "detail/sex is male/error/rise_relative" not in numbers(found)
    assert "- cie_excess: undefined" in found.tags["mlflow.note.content"]


def test_a_variant_and_its_members_have_a_colour_of_their_own(
    run: Run, audit: dict[str, Any]
) -> None:
    colours = [variant(audit, name).tags["mlflow.runColor"] for name in VARIANTS]
    assert len(set(colours)) == 3
    found = members(run, audit)
    for name, colour in zip(VARIANTS, colours, strict=True):
        assert found[f"{name} · 01"].tags["mlflow.runColor"] == colour


def test_a_run_rests_on_the_examples_of_both_splits(audit: dict[str, Any]) -> None:
    for record in audit_records(audit)[1]:
        assert record.examples == {"train": 1000, "test": 500}


def test_there_is_one_run_a_member_with_its_loss_curve(run: Run, audit: dict[str, Any]) -> None:
    found = members(run, audit)
    assert list(found) == [f"{name} · {k:02d}" for name in VARIANTS for k in range(2)]
    second = found["prune-0.9 · 01"]
    assert numbers(second) == {"accuracy": pytest.approx(0.82, abs=1e-12)}
    # 40 steps, a point for each tenth: at 4, 8 and 12.
    curve = [("loss", 2.0, 4), ("loss", 2.0, 8), ("loss", 0.5, 12)]
    assert second.metrics[1:] == curve
    assert (second.params["seed"], second.params["sparsity"]) == (2**63 + 1, 0.9)
    assert second.params["recipe.steps"] == 40
    assert second.tags["scotoma.variant"] == "prune-0.9"
    assert second.tags["scotoma.member"] == "1"
    assert second.tags["scotoma.dataset"] == "d" * 64
    quantized = found["int8-static · 01"]
    assert quantized.tags["scotoma.paired_with"] == "dense-1"
    assert quantized.params["bits"] == 8
    assert [name for name, _, _ in quantized.metrics] == ["accuracy"]


def test_a_recipe_of_a_member_goes_before_that_of_the_configuration(
    audit: dict[str, Any],
) -> None:
    own = {"index": 0, "seed": 1, "sha256": "a", "recipe": {"steps": 80}, "loss": [2.0]}
    rest = {"index": 1, "seed": 2, "sha256": "b", "loss": [2.0]}
    manifests = {name: {"members": [own, rest]} for name in VARIANTS}
    first, second = member_records(audit, RECIPE, manifests)[:2]
    assert (first.params["recipe.steps"], first.metrics[1]) == (80, ("loss", 2.0, 8))
    assert (second.params["recipe.steps"], second.metrics[1]) == (40, ("loss", 2.0, 4))


def test_another_result_is_another_run_and_the_same_weights_are_the_same_member(
    run: Run, audit: dict[str, Any]
) -> None:
    runs, before = variant(audit, "dense").key(), members(run, audit)["dense · 00"].key()
    audit["accuracy"]["dense"]["top1"]["value"] = 0.5
    assert variant(audit, "dense").key() != runs
    assert members(run, audit)["dense · 00"].key() == before


# --- the worst change -----------------------------------------------------------------------------


def test_the_worst_change_is_the_surest_one_and_not_the_largest(audit: dict[str, Any]) -> None:
    found = variant(audit, "prune-0.9")
    rises = {row["group"]: row["absolute"]["value"] for row in audit["subgroups"]["prune-0.9"][:4]}
    assert rises["age=old"] > numbers(found)["error_rise_worst"]
    assert found.params["worst_group"] == "sex=male,age=old"
    assert "error_rise_worst: +7.00 points [" in found.tags["mlflow.note.content"]


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["all", "sex=male", "sex=female", "age=old"]),
            st.sampled_from(["error", "fpr", "fnr"]),
            st.sampled_from([None, None, "1"]),
            st.none() | st.floats(-100, 1000),
        ),
        unique_by=lambda row: row[:3],
    )
)
def test_mlflow_and_the_terminal_name_the_same_worst_group(
    rows: list[tuple[str, str, str | None, float | None]],
) -> None:
    """Of MLflow's worst changes, one a metric, the worst is the one that the terminal shows."""
    top1 = {"value": 0.9, "low": None, "high": None, "n": 9, "reason": "one"}
    cie = {"n": 9, "cie": {"count": 1, "low": 1, "high": 1, "ties": 0}}
    audit = {
        "config_sha256": "c",
        "seed": 7,
        "examples": {"train": 9, "test": 9, "dataset_sha256": "d"},
        "variants": [
            {"name": "dense", "members": 2},
            {"name": "v", "kind": "prune", "sparsity": 0.9, "bits": 32, "paired": False}
            | {"members": 2},
        ],
        "accuracy": {"dense": {}, "v": {"top1": top1}},
        "divergence": {"v": {"cie": cie | {"cie_share": top1, "excess": top1}}},
        "subgroups": {
            "v": [
                {"group": group, "metric": metric, "class": of_class}
                | {
                    "absolute": top1 | {"value": k, "low": low, "high": low + 1}
                    if low is not None
                    else top1 | {"value": 1000 + k},
                    "compressed": top1 | {"effective_events": 10.0},
                }
                for k, (group, metric, of_class, low) in enumerate(rows)
            ]
        },
        "rows": {},
    }
    record = audit_records(audit)[1][0]
    shown = {
        (name.removesuffix("_rise_worst"), value)
        for name, value, _ in record.metrics
        if name.endswith("_rise_worst")
    }
    terminal = worst_change(audit, "v")
    if terminal is None:
        assert shown == set()
        return
    rise = terminal["absolute"]
    assert rise.number.value is not None
    assert (rise.metric, rise.number.value) in shown
    lows = [value for name, value, _ in record.metrics if name.endswith("_rise_worst_low")]
    assert max(lows) == rise.number.low


# --- names ----------------------------------------------------------------------------------------


def test_hostile_group_names_stay_apart_and_stay_text(audit: dict[str, Any], hostile: Rows) -> None:
    audit["subgroups"]["prune-0.9"] = hostile
    found = variant(audit, "prune-0.9")
    rises = [v for k, v in numbers(found).items() if k.endswith("/error/rise_relative")]
    assert sorted(rises) == sorted(row["relative"]["value"] for row in hostile)
    tags = found.texts()
    assert found.params["worst_group"] == "a=[x](http://x.example)|`y` # h"
    note = tags["mlflow.note.content"]
    assert "&#91;x&#93;&#40;http&#58;" in note
    assert not re.search(r"<|`|\]\(", note)
    assert all(json.dumps(text).isprintable() and len(text) <= 5000 for text in tags.values())


@given(st.lists(st.lists(st.text(max_size=300), min_size=1, max_size=3).map(tuple)))
@example([("a",), ("A",), ("a ",), ("a,b",), ("a=b",), ("",), (".",), ("x" * 101,), ("x" * 102,)])
@example([("a", ".."), ("a", "..", "b"), ("a/b",), ("a", "b")])
def test_metric_names_are_legal_and_as_many_as_the_addresses(keys: list[tuple[str, ...]]) -> None:
    names = metric_names(keys)
    assert set(names) == set(keys)
    assert len({name.casefold() for name in names.values()}) == len(names)
    for name in names.values():
        _validate_metric_name(f"detail/{name}_high")
        assert len(name) <= 250 - len("detail/_high")
