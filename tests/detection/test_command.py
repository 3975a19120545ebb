"""`scotoma compare --truth` and `source.kind: detections`, as a user calls them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from scotoma.detection.matching import outcomes
from scotoma.readers.boxes import read_detections, read_ground_truth
from scotoma.run import read_json
from tests.helpers.commands import measured, scotoma

pytestmark = pytest.mark.slow

EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "detections.py"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("detections")
    truth = EXAMPLE["write_truth"](home, images=250)
    write = EXAMPLE["write_detections"]
    write(home / "fp32.json", truth, seed=1)
    write(home / "int8.json", truth, harm=0.6, seed=1, noise_seed=2)
    for variant, harm in (("fp32", 0.0), ("int8", 0.6)):
        (home / "found" / variant).mkdir(parents=True)
        for model in range(2):
            path = home / "found" / variant / f"{model}.json"
            write(path, truth, harm=harm, seed=10 + model, noise_seed=100 + model)
    return home


def test_numbers_are_those_of_the_files_and_the_planted_class_fails(home: Path) -> None:
    sides = home / "fp32.json", home / "int8.json"
    found = measured(
        "compare", *sides, "--truth", home / "instances.json", "--group", "class,area,weather",
        "--examples", home / "weather.csv",
    )  # fmt: skip
    (one,) = found["comparisons"]
    truth = read_ground_truth(home / "instances.json")
    before, after = (outcomes(truth, read_detections(side, truth)) for side in sides)
    change = after.found.mean() - before.found.mean()
    assert one["found"]["change"]["value"] == pytest.approx(change)
    assert one["boxes"] == len(before.found)
    counts = {flip["kind"]: flip["count"] for flip in one["flips"]}
    assert counts["right_to_wrong"] == pytest.approx((before.found & ~after.found).sum())
    alarms = one["false_alarms"]["after"]["value"]
    assert alarms == pytest.approx(after.false_alarms.mean())
    worst = min(one["groups"], key=lambda row: row["score"]["change"]["high"])
    assert worst["group"] in ("area=small", "class=person")
    assert {row["group"] for row in one["groups"]} >= {"weather=fog", "class=dog"}
    (precision,) = [row for row in one["precision"] if row["name"] == "AP"]
    assert precision["change"]["low"] < precision["change"]["value"] < precision["change"]["high"]
    assert found["gate"]["verdict"] == "FAIL"


def test_the_same_detector_changes_nothing(home: Path) -> None:
    side = home / "fp32.json"
    (home / "copy.json").write_bytes(side.read_bytes())
    found = measured("compare", side, home / "copy.json", "--truth", home / "instances.json")
    (one,) = found["comparisons"]
    assert {flip["count"] for flip in one["flips"]} == {0.0}
    assert {row["change"]["value"] for row in one["precision"]} == {0.0}
    assert not one["search"]["slices"]


@pytest.mark.thorough  # the page of docs/metrics.md runs one, too
def test_populations_of_detectors_are_audited(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "detectors.yaml"
    config.write_text(
        "version: 1\nproject: detectors\nsource:\n  kind: detections\n"
        f"  files: {home}/found/{{variant}}/{{model}}.json\n"
        f"  examples: {home}/instances.json\nbaseline: fp32\n"
        "groups: {class: {column: class}, area: {column: area}}\ntracking: {uri: 'off'}\n"
    )
    code, _, err = scotoma("audit", config, "--out", tmp_path / "run", "--quiet")
    assert code == 0, err
    audit = read_json(tmp_path / "run" / "audit.json")
    truth = read_ground_truth(home / "instances.json")
    assert audit["examples"]["test"] == len(truth.examples)
    assert read_json(tmp_path / "run" / "gate.json")["verdict"] == "FAIL"


def test_options_of_logs_are_refused_beside_a_ground_truth(home: Path) -> None:
    sides = home / "fp32.json", home / "int8.json"
    truth = home / "instances.json"
    code, _, err = scotoma("compare", *sides, "--truth", truth, "--score", "acc")
    assert code == 2
    assert "--score does not go with detections beside their ground truth (--truth)" in err
    for name, value in (("--tracking", "sqlite:///mlflow.db"), ("--refusal", "no")):
        code, _, err = scotoma("compare", *sides, "--truth", truth, name, value)
        assert (code, f"{name} does not go with detections" in err) == (2, True)
    for name in ("--iou", "--min-score"):
        code, _, err = scotoma("compare", *sides, name, "0.7")
        assert (code, f"leave out {name}, or add --truth" in err) == (2, True)
    code, _, err = scotoma("compare", *sides, "--truth", home / "weather.csv")
    assert code == 4
    assert "must hold JSON" in err


def test_json_of_a_comparison_can_be_read_without_nan(home: Path) -> None:
    sides = home / "fp32.json", home / "int8.json"
    _, out, _ = scotoma("compare", *sides, "--truth", home / "instances.json", "--json")
    assert json.loads(out, parse_constant=lambda name: pytest.fail(name))["version"] == 1


RULES = {
    "own": None,
    "clarify": "{id: asked, metric: clarify.RD, max: 0.4, of: mean}",
    "labels": "{id: asked, metric: clarify.DPL, max: 0.4}",
    "fairness": "{id: asked, metric: fairness.DP, max: 0.4, of: mean}",
    "slices": "{id: asked, metric: slices_hurt, margin: 0.01}",
    "classes": "{id: asked, metric: classes_hurt, margin: 0.01}",
}


@pytest.mark.thorough
def test_a_verdict_alone_is_that_of_an_audit_with_all_its_numbers(
    home: Path, tmp_path: Path
) -> None:
    sides = home / "fp32.json", home / "int8.json"
    asked = "compare", *sides, "--truth", home / "instances.json", "--group", "class,area"
    run = tmp_path / "run"
    assert scotoma(*asked, "--out", run, "--quiet")[0] == 0
    verdicts = set()
    for name, rule in RULES.items():
        with_rules: tuple[str | Path, ...] = ()
        if rule is not None:
            path = tmp_path / f"{name}.yaml"
            path.write_text(f"rules: [{rule}]\n")
            with_rules = "--rules", path
            scotoma("gate", run, *with_rules, "--quiet")
        alone, whole = measured(*asked, *with_rules)["gate"], read_json(run / "gate.json")
        for gate in (alone, whole):
            # A verdict alone has fewer numbers, and no configuration.
            del gate["audit_sha256"], gate["config_sha256"]
        assert alone == whole, name
        verdicts.add(json.dumps(whole))
    assert len(verdicts) == len(RULES)
