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

from scotoma.run import Run, read_json
from scotoma.tracking import metric_names
from scotoma.tracking.records import NONE_CARRIED
from scotoma.tracking.run_record import RunRecord
from scotoma.uncertainty import undefined
from tests.tracking.names import short
from tests.tracking.typed import member_records, variant_records, worst_change

Rows = list[dict[str, Any]]
VARIANTS = ["dense", "prune-0.9", "int8-static"]
RECIPE = {"steps": 40}


@pytest.fixture
def run(folder: Callable[..., Run], tmp_path: Path) -> Run:
    return folder(tmp_path / "run", "pure")


@pytest.fixture
def audit(run: Run, audit_of: Callable[[Run], dict[str, Any]]) -> dict[str, Any]:
    return audit_of(run)


def variant(audit: dict[str, Any], name: str) -> RunRecord:
    (found,) = (record for record in variant_records(audit, RECIPE) if short(record.name) == name)
    return found


def members(run: Run, audit: dict[str, Any]) -> dict[str, RunRecord]:
    manifests = {name: read_json(run.population(name) / "manifest.json") for name in VARIANTS}
    return {short(record.name): record for record in member_records(audit, RECIPE, manifests)}


def numbers(record: RunRecord) -> dict[str, float]:
    """Its metrics but for curves, each there once."""
    found = {name: value for name, value, step in record.metrics if step == 0}
    assert len(found) == sum(step == 0 for _, _, step in record.metrics)
    return found


def test_there_is_one_flat_run_a_variant_and_dense_is_logged_last(audit: dict[str, Any]) -> None:
    found = variant_records(audit, RECIPE)
    assert [short(record.name) for record in found] == VARIANTS[::-1]
    assert not [record for record in found if "mlflow.parentRunId" in record.tags]
    assert len({record.key() for record in found}) == 3


def test_numbers_are_metrics_named_by_section(audit: dict[str, Any]) -> None:
    assert numbers(variant(audit, "prune-0.9")) == {
        "1_quality/top1": 0.8,
        "2_cie/share": 0.11,
        "2_cie/count": 55,
        "2_cie/excess_points": pytest.approx(6.0),
        "3_worst/error_points": pytest.approx(7.0),
        "3_worst/highest_error": 0.2,
        "3_worst/gap_points": 4.0,
        "amp_error/all": 50.0,
        "amp_error/sex.male": 40.0,
        "amp_error/age.old": 90.0,
        "amp_error/sex.male_and_age.old": 70.0,
        "amp_fpr/sex.male": -5.0,
        "amp_fnr/sex.male": 8.0,
        "gap_points/sex": 3.0,
        "gap_points/age.old": 4.0,
        "gap_points/age.young": -2.0,
    }
    assert numbers(variant(audit, "dense")) == {"1_quality/top1": 0.9}


def test_parameters_are_numbers_that_can_be_compared(audit: dict[str, Any]) -> None:
    assert variant(audit, "int8-static").params == {
        "recipe.steps": 40,
        "sparsity": 0.0,
        "bits": 8,
        "n_models": 2,
        "seed": 7,
        "kind": "int8",
        "paired": "true",
    }
    assert variant(audit, "prune-0.9").params["sparsity"] == 0.9


def test_tags_say_what_a_number_rests_on(run: Run, audit: dict[str, Any]) -> None:
    tags = variant(audit, "prune-0.9").tags
    assert tags["scotoma.audit"] == run.config.digest()
    assert tags["scotoma.variant"] == "prune-0.9"
    top1 = audit["accuracy"]["prune-0.9"]["top1"]
    assert tags["interval/1_quality/top1"] == f"[{top1['low']:.6g}, {top1['high']:.6g}] n=500"
    assert tags["interval/2_cie/count"] == "[50, 60] n=500: the range over 10 ties"
    assert tags["group/3_worst/error_points"] == "sex=male,age=old"
    assert tags["group/sex.male_and_age.old"] == "sex=male,age=old"
    assert tags["group/gap_points/sex"] == "sex=male against sex=female"
    gap = audit["gaps"]["prune-0.9"][0]["gap"]
    points = f"[{100 * gap['low']:.6g}, {100 * gap['high']:.6g}] n=500"
    assert tags["interval/gap_points/sex"] == points


def test_a_variant_and_its_members_have_a_colour_of_their_own(
    run: Run, audit: dict[str, Any]
) -> None:
    colours = [variant(audit, name).tags["mlflow.runColor"] for name in VARIANTS]
    assert len(set(colours)) == 3
    found = members(run, audit)
    for name, colour in zip(VARIANTS, colours, strict=True):
        assert found[f"{name} · 01"].tags["mlflow.runColor"] == colour


def test_a_run_rests_on_the_examples_of_both_splits(audit: dict[str, Any]) -> None:
    for record in variant_records(audit, RECIPE):
        assert record.examples == {"train": 1000, "test": 500}


def test_there_is_one_run_a_member_with_its_loss_curve(run: Run, audit: dict[str, Any]) -> None:
    found = members(run, audit)
    assert list(found) == [f"{name} · {k:02d}" for name in VARIANTS for k in range(2)]
    second = found["prune-0.9 · 01"]
    assert numbers(second) == {"top1": pytest.approx(0.82, abs=1e-12)}
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
    assert [name for name, _, _ in quantized.metrics] == ["top1"]


def test_a_recipe_of_a_member_goes_before_that_of_the_configuration(
    audit: dict[str, Any],
) -> None:
    own = {"index": 0, "seed": 1, "sha256": "a", "recipe": {"steps": 80}, "loss": [2.0]}
    rest = {"index": 1, "seed": 2, "sha256": "b", "loss": [2.0]}
    manifests = {name: {"members": [own, rest]} for name in VARIANTS}
    first, second = member_records(audit, RECIPE, manifests)[:2]
    assert (first.params["recipe.steps"], first.metrics[1]) == (80, ("loss", 2.0, 8))
    assert (second.params["recipe.steps"], second.metrics[1]) == (40, ("loss", 2.0, 4))


def test_what_is_undefined_is_a_tag_with_its_reason_and_no_metric(
    audit: dict[str, Any],
) -> None:
    reason = "undefined (no positives in group 'men\x00')"
    audit["divergence"]["prune-0.9"]["cie"]["excess"] = undefined(reason, n=0, members=2).as_dict()
    for row in audit["subgroups"]["prune-0.9"]:
        row["relative"] |= {"value": float("inf"), "low": None, "high": None}
        row["absolute"] |= {"low": None, "high": None}
    one = undefined("one training run: says nothing about the next one", value=0.1, n=9, members=1)
    audit["gaps"]["prune-0.9"][0]["gap"] = one.as_dict()
    found = variant(audit, "prune-0.9")
    assert set(numbers(found)) == {
        *("1_quality/top1", "2_cie/share", "2_cie/count"),
        *("gap_points/sex", "gap_points/age.old", "gap_points/age.young"),
        *("3_worst/highest_error", "3_worst/gap_points"),
    }
    tags = found.texts()
    assert tags["undefined/2_cie/excess_points"] == "undefined (no positives in group 'men ')"
    assert tags["undefined/amp_error/sex.male"] == "undefined (inf)"
    assert tags["undefined/3_worst/error_points"] == NONE_CARRIED
    assert "group/3_worst/error_points" not in tags
    assert tags["interval/gap_points/sex"] == (
        "none, n=9: one training run: says nothing about the next one"
    )


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
    assert 100 * rises["age=old"] > numbers(found)["3_worst/error_points"]
    assert found.tags["group/3_worst/error_points"] == "sex=male,age=old"
    assert "most affected by error: 7.0 points [" in found.tags["mlflow.note.content"]


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
        "gaps": {},
    }
    record, _ = variant_records(audit, RECIPE)
    shown = {
        (record.tags[f"group/{name}"], name.partition("/")[2].removesuffix("_points"), value)
        for name, value, _ in record.metrics
        if name.startswith("3_worst/") and name.endswith("_points")
    }
    terminal = worst_change(audit, "v")
    if terminal is None:
        assert shown == set()
        return
    assert terminal.absolute.value is not None
    assert (terminal.group, terminal.metric, 100 * terminal.absolute.value) in shown
    lows = {(group, metric): low for group, metric, of_class, low in rows if of_class is None}
    found = [lows[group, metric] for group, metric, _ in shown]
    assert max(low for low in found if low is not None) == terminal.absolute.low
    assert None not in found


# --- names ----------------------------------------------------------------------------------------


def test_hostile_group_names_stay_apart_and_stay_text(audit: dict[str, Any], hostile: Rows) -> None:
    audit["subgroups"]["prune-0.9"] = hostile
    found = variant(audit, "prune-0.9")
    metrics = {k: v for k, v in numbers(found).items() if k.startswith("amp_error/")}
    assert sorted(metrics.values()) == sorted(row["relative"]["value"] for row in hostile)
    assert all(re.fullmatch(r"amp_error/[A-Za-z0-9_.-]+", name) for name in metrics)
    tags = found.texts()
    assert tags["group/3_worst/error_points"] == "a=[x](http://x.example)|`y` # h"
    note = tags["mlflow.note.content"]
    assert not re.search(r"[<>\[\]|`\x00-\x09]", note.replace("[", "", 5).replace("]", "", 5))
    assert "&#91;x&#93;&#40;http&#58;" in note
    assert all(json.dumps(text).isprintable() and len(text) <= 5000 for text in tags.values())


@given(st.lists(st.text(max_size=300)))
@example(
    [
        "a",
        "A",
        "a ",
        "a,b",
        "a_and_b",
        "a=b",
        "a.b",
        "",
        ".",
        "a.0123456789ab",
        "x" * 101,
        "x" * 102,
    ]
)
def test_metric_names_are_legal_and_as_many_as_the_keys(keys: list[str]) -> None:
    names = metric_names(keys)
    assert set(names) == set(keys)
    assert len({name.casefold() for name in names.values()}) == len(names)
    assert all(
        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) and len(name) <= 100
        for name in names.values()
    )


def test_a_key_that_is_the_name_of_another_gets_a_name_of_its_own() -> None:
    taken = metric_names(["sex=m/f"])["sex=m/f"]
    assert len(set(metric_names(["sex=m/f", taken]).values())) == 2
