"""Which sections `robustness` are refused, and which pictures are corrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scotoma.config import Robustness, default_config, parse_config
from scotoma.datasets import AuditedExamples
from scotoma.datasets.examples import stratified
from scotoma.errors import ConfigError
from scotoma.robustness.predict import suite_of
from scotoma.sources.reading import load_examples
from tests.helpers.commands import scotoma
from tests.robustness.configuration import CONFIG, ROBUST

pytestmark = pytest.mark.slow


def test_the_step_needs_its_section(tmp_path: Path) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(CONFIG)
    code, _, err = scotoma("audit", config, "--out", tmp_path / "run", "--step", "robustness")
    assert code == 2
    assert "add, for example, `robustness: {profile: scaled}`" in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{profile: cifar-d}", "robustness.profile should be 'cifar-c'"),
        ("{profile: scaled, severities: [0]}", "robustness.severities.0 must be at least 1, got 0"),
        ("{profile: scaled, severities: [6]}", "robustness.severities.0 must be at most 5, got 6"),
        (
            "{profile: scaled, severities: []}",
            "robustness.severities must hold at least one entry, got none",
        ),
        ("{sets: [{name: a b, folder: a}]}", "must be at most 40 letters, digits, dots and dashes"),
        ("{profile: scaled, severities: [1, 1]}", "must differ, got 1 twice"),
        ("{profile: scaled, example: 3}", "did you mean"),
        ("{profile: scaled, frames: 10}", "robustness.frames is not a key here; known are profile"),
        ("{profile: scaled, activation_ranges: true}", "robustness.activation_ranges is not a key"),
        ("{severities: [1]}", "robustness.profile is missing"),
        ("{profile: scaled, sets: [{name: a, folder: a, foreign: true}]}", "add confidence: true"),
        (
            "{profile: scaled, sets: [{name: a, folder: a, foreign: true, mask: true}]}",
            "'a' is of foreign pictures, which have no class",
        ),
        ("{severities: [1], sets: [{name: a, folder: a}]}", "without robustness.profile none are"),
        (
            "{checkpoints: 3, sets: [{name: a, folder: a}]}",
            "robustness.checkpoints is for corrupted",
        ),
        ("{profile: scaled, full: true, members: 3}", "leave robustness.members out"),
        ("{profile: scaled, sets: [{name: a, folder: a}, {name: a, folder: b}]}", "names a twice"),
    ],
)
def test_a_wrong_section_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:9") as refused:
        parse_config(CONFIG + f"robustness: {text}", "a.yaml")
    assert sentence in str(refused.value)


def test_all_is_all_examples_severities_and_members() -> None:
    asked = Robustness(profile="scaled", full=True)
    assert asked.asked_severities == (1, 2, 3, 4, 5)
    test = load_examples(default_config()).split("test")
    assert len(stratified(test, asked.asked_examples, seed=1)) == len(test.ids)
    assert min(30, asked.asked_members) == 30


def test_models_made_elsewhere_leave_no_checkpoints() -> None:
    text = """
source: {kind: onnx, models: m, images: i, attributes: a.csv, split: {column: s, train: 0, test: 1}}
label: {column: y}
variants: [dense, {onnx: [small]}]
robustness: {profile: scaled, checkpoints: 3}
"""
    with pytest.raises(ConfigError, match=r"onnx trains none; add early ones to the models, and"):
        parse_config(text, "a.yaml")


def test_confidence_needs_scores_of_clean_pictures() -> None:
    text = CONFIG.replace("keep_scores: true\n", "")
    with pytest.raises(ConfigError, match="needs keep_scores: true; set it"):
        parse_config(text + "robustness: {profile: scaled, confidence: true}", "a.yaml")


def test_a_set_that_was_chosen_by_the_models_it_judges_is_refused() -> None:
    text = "robustness: {profile: scaled, sets: [{name: a, folder: a, selected_against: dense}]}"
    with pytest.raises(ConfigError) as refused:
        parse_config(CONFIG + text, "a.yaml")
    assert "'a' was selected against 'dense', which this audit would judge by" in str(refused.value)


@pytest.mark.parametrize(
    ("config", "size", "sentence"),
    [
        (Robustness(profile="cifar-c"), 8, "cifar-c is for images of 32 pixels, got 8; set scaled"),
        (Robustness(profile="cifar-c", kinds=["blurr"]), 32, "did you mean 'blur'"),
        (Robustness(profile="scaled", kinds=["motion_blur"]), 8, "motion_blur cannot be made"),
        (Robustness(profile="cifar-c", kinds=["frost"]), 32, "it needs photographs of frost"),
    ],
)
def test_corruptions_that_cannot_be_made_are_refused(
    config: Robustness, size: int, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        suite_of(config, size)
    assert sentence in str(refused.value)


def test_predictions_alone_cannot_be_corrupted() -> None:
    source = "source: {kind: predictions, files: p.parquet, examples: e.parquet}\n"
    with pytest.raises(ConfigError, match=r"source\.kind predictions has none"):
        parse_config(source + "label: {column: y}\n" + ROBUST, "a")


def test_every_group_and_class_keeps_its_share() -> None:
    test = load_examples(default_config()).split("test")
    rows = stratified(test, 600, seed=1)
    assert len(set(rows)) == 600
    shuffled = test.keep(np.ones(len(test.ids), bool))
    strata = test.table.select("label", *test.attributes).with_row_index()
    whole = strata.group_by("label", *test.attributes).len()
    kept = strata[rows].group_by("label", *test.attributes).len()
    both = whole.join(kept, on=["label", *test.attributes], how="left").fill_null(0)
    assert (both["len"] * 600 / 1798 - both["len_right"]).abs().max() < 1
    turned = shuffled.table.reverse()
    other = stratified(AuditedExamples(turned, test.classes, test.attributes, ()), 600, seed=1)
    assert {test.ids[row] for row in rows} == {turned["example_id"][int(row)] for row in other}
    assert set(stratified(test, 600, seed=2)) != set(rows)
