"""No PASS where the baseline finds no more than its answers dealt to others; its twin passes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scotoma.answers.boxes import Detections
from scotoma.comparison.boxes import box_chance_note
from scotoma.detection.matching import DEALS, dealt_outcomes, outcomes
from scotoma.run import read_json
from tests.detection.sets import random_set, read
from tests.helpers.commands import measured, scotoma

pytestmark = pytest.mark.slow

EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "detections.py"))
LENIENT = "rules: [{id: all, metric: error, over: all, max_increase: {absolute: 0.05}}]\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two detectors without harm."""
    home = tmp_path_factory.mktemp("chance")
    truth = EXAMPLE["write_truth"](home, images=120)
    for name, noise in (("fp32", 1), ("int8", 2)):
        EXAMPLE["write_detections"](home / f"{name}.json", truth, seed=1, noise_seed=noise)
    (home / "rules.yaml").write_text(LENIENT)
    return home


def rewritten(home: Path, folder: Path, **moved: int) -> tuple[Path, Path]:
    """Detections whose ids are moved round: each one is known, and of another image or class."""
    sides = folder / "fp32.json", folder / "int8.json"
    for side in sides:
        rows = json.loads((home / side.name).read_text())
        for row in rows:
            for key, number in moved.items():
                row[key] = row[key] % number + 1
        side.parent.mkdir(parents=True, exist_ok=True)
        side.write_text(json.dumps(rows))
    return sides


def compared(home: Path, sides: tuple[Path, Path]) -> dict[str, Any]:
    return measured(
        "compare", *sides, "--truth", home / "instances.json", "--rules", home / "rules.yaml"
    )


def test_detectors_without_harm_pass(home: Path) -> None:
    found = compared(home, (home / "fp32.json", home / "int8.json"))
    assert found["gate"]["verdict"] == "PASS"
    assert found["admission"] == []


@pytest.mark.parametrize("moved", [{"image_id": 120}, {"category_id": 4}])
def test_ids_of_other_images_or_classes_admit_no_pass(
    moved: dict[str, int], home: Path, tmp_path: Path
) -> None:
    words = "with its answers dealt to other images"
    sides = rewritten(home, tmp_path, **moved)
    found = compared(home, sides)
    (variant,) = found["gate"]["variants"]
    assert variant["verdict"] == "UNSURE"
    assert words in variant["sentences"][0]
    (note,) = found["admission"]
    assert note["rule"] == "chance"
    assert note["blocks_pass"] is True
    code, out, _ = scotoma(
        "compare", *sides, "--truth", home / "instances.json", "--rules", home / "rules.yaml",
        "--gate",
    )  # fmt: skip
    assert (code, "PASS" in out, words in " ".join(out.split())) == (0, False, True)


def test_an_audit_of_detectors_of_other_images_says_so(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "detectors.yaml"
    for kind, moved in (("right", {}), ("other", {"image_id": 120})):
        for side in rewritten(home, tmp_path / kind, **moved):
            side.rename(side.parent / f"{side.stem}-0.json")
        config.write_text(
            "version: 1\nproject: detectors\nsource:\n  kind: detections\n"
            f"  files: {tmp_path}/{kind}/{{variant}}-{{model}}.json\n"
            f"  examples: {home}/instances.json\nbaseline: fp32\n"
            "groups: {area: {column: area}}\ntracking: {uri: 'off'}\n"
        )
        run = tmp_path / f"run {kind}"
        code, _, err = scotoma(
            "audit", config, "--out", run, "--rules", home / "rules.yaml", "--quiet"
        )
        assert code == 0, err
    gates = [read_json(tmp_path / f"run {kind}" / "gate.json") for kind in ("right", "other")]
    assert [gate["verdict"] for gate in gates] == ["PASS", "UNSURE"]
    audit = read_json(tmp_path / "run other" / "audit.json")
    (note,) = audit["admission"]
    assert note["sentence"].startswith("dense finds ")
    assert "dealt to other images" in gates[1]["variants"][0]["sentences"][0]
    assert read_json(tmp_path / "run right" / "audit.json")["admission"] == []
    assert audit["rows"]["boxes"]


@pytest.mark.parametrize("seed", range(1, 9))
def test_answers_that_do_not_differ_are_found_as_often_when_dealt(
    seed: int, tmp_path: Path
) -> None:
    """The same boxes of one class in every image: to deal them changes nothing."""
    truth, found = read(random_set(seed), tmp_path)
    image = np.repeat(np.arange(truth.images), len(found.box))
    boxes = np.tile(found.box, (truth.images, 1))
    score = np.tile(found.score, truth.images)
    everywhere = Detections(image, np.zeros(len(image), np.intp), boxes, score)
    own = outcomes(truth, everywhere).found
    for way, dealt in dealt_outcomes(truth, everywhere, iou=0.5, least_score=0.25).items():
        assert dealt.shape == (len(own), DEALS)
        assert (dealt == own[:, None]).all(), way


def test_a_detector_that_is_always_right_is_better_than_chance() -> None:
    """Nothing varies over images there, and an interval is known all the same."""
    found, dealt = np.ones((12, 1), np.bool_), {"images": np.zeros((12, DEALS), np.bool_)}
    image = np.repeat(np.arange(6), 2)
    assert box_chance_note(found, dealt, image, "fp32") is None
    note = box_chance_note(~found, dealt, image, "fp32")
    assert note is not None
    assert note.sentence.startswith("fp32 finds 0.0% of the boxes, no better than")
    note = box_chance_note(found, {"classes": np.ones((12, DEALS), np.bool_)}, image, "fp32")
    assert note is not None
    assert "its classes dealt to other detections (100.0%): classes are probably" in note.sentence
