"""A tournament on several labels: the study's MS-COCO, with techniques whose gain is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.bias.fairness import fairness_metric
from scotoma.runs import resampled_bias
from tests.helpers.commands import measured, scotoma
from tests.helpers.photographs import EXAMPLE, LABELS, TABLE

pytestmark = pytest.mark.slow

PHOTOGRAPHS, MODELS = 300, 8
AUDIT = f"""\
project: NAME
source: {{kind: predictions, files: "NAME/{{variant}}/{{model}}.parquet", examples: table.csv}}
label: {{columns: [{", ".join(LABELS)}]}}
groups: {{sex: {{column: sex}}}}
tracking: {{uri: "off"}}
"""
HARM = {  # by which scores of what women's photographs show fall
    "base": {"dense": 1.5, "small": 1.5},
    "fair": {"dense": 0.0, "small": 0.9},  # compression eats part of the gain
    "same": {"dense": 1.5, "small": 1.5},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished audits of predictions: one technique that helps, and one that does nothing."""
    home, rng = tmp_path_factory.mktemp("labels"), np.random.default_rng(0)
    present = rng.random((PHOTOGRAPHS, len(LABELS))) < 0.4
    woman = rng.random(PHOTOGRAPHS) < 0.5
    ids = [f"{row}.jpg" for row in range(PHOTOGRAPHS)]
    bits = dict(zip(LABELS, present.astype(int).T, strict=True))
    sexes = np.where(woman, "female", "male")
    pl.DataFrame({"example_id": ids, "sex": sexes, **bits}).write_csv(home / "table.csv")
    hard = 0.7 * rng.normal(size=present.shape)
    for name, variants in HARM.items():
        for variant, harm in variants.items():
            (home / name / variant).mkdir(parents=True)
            for model in range(MODELS):
                own = 0.5 * rng.normal(size=present.shape)
                logit = 4 * (present - 0.5) + hard + own - harm * (present & woman[:, None])
                chances = dict(zip(LABELS, (1 / (1 + np.exp(-logit))).T, strict=True))
                pl.DataFrame({"example_id": ids, **chances}).write_parquet(
                    home / name / variant / f"{model}.parquet"
                )
        (home / f"{name}.yaml").write_text(AUDIT.replace("NAME", name))
        code, _, err = scotoma("audit", home / f"{name}.yaml", "--out", home / f"run-{name}",
                               "--quiet")  # fmt: skip
        assert code == 0, err
    return home


@pytest.fixture(scope="module")
def compared(home: Path) -> dict[str, Any]:
    return measured("compare", "--techniques", *(f"{name}={home / f'run-{name}'}" for name in HARM))


def bias(home: Path, name: str, variant: str, metric: str, rows: np.ndarray | None = None) -> Any:
    """A metric of every model, mean over the labels, one label at a time."""
    truth = pl.read_csv(home / "table.csv")
    rows = np.arange(PHOTOGRAPHS) if rows is None else rows
    woman = (truth["sex"] == "female").to_numpy()[rows]
    values = []
    for model in range(MODELS):
        said = pl.read_parquet(home / name / variant / f"{model}.parquet")
        each = []
        for label in LABELS:
            y, p = truth[label].to_numpy()[rows], (said[label].to_numpy()[rows] >= 0.5).astype(int)
            counts = np.zeros((2, 2, 2))
            np.add.at(counts, (woman.astype(int), y, p), 1)
            each.append(fairness_metric(metric, counts).per_class[1])
        values.append(np.mean(each))
    return np.array(values)


def test_what_a_technique_gains_is_found_and_nothing_where_nothing_is(
    home: Path, compared: dict[str, Any]
) -> None:
    verdicts = {(cell["technique"], cell["metric"]): cell["verdict"] for cell in compared["cells"]}
    assert {verdicts["fair", metric] for metric in ("DP", "DI", "EOTP")} == {"better"}
    assert {verdict for (name, _), verdict in verdicts.items() if name == "same"} == {"undecided"}


def test_runs_are_the_metrics_of_one_label_averaged(home: Path, compared: dict[str, Any]) -> None:
    for metric in ("DP", "DI", "EOTP", "EOFP", "SPSF", "FPSF", "BA"):
        for name in HARM:
            own = [run["value"] for run in compared["runs"]
                   if (run["technique"], run["metric"]) == (name, metric)]  # fmt: skip
            assert own == pytest.approx(bias(home, name, "dense", metric))


def test_a_test_set_drawn_anew_is_that_of_each_label_averaged() -> None:
    """Whole examples are drawn: each label by itself meets the same draws."""
    rng = np.random.default_rng(0)
    present, said = rng.integers(0, 2, (40, 3)), rng.integers(0, 2, (40, 3, 2))
    woman, metrics = rng.random(40) < 0.5, ["DP", "EOTP", "FPSF", "BA"]
    every = woman.repeat(3)
    together = resampled_bias(
        present.ravel(), [said.reshape(-1, 2)], [every, ~every], metrics, n_classes=2, draws=5,
        clusters=np.arange(40).repeat(3), of_label=np.tile(np.arange(3), 40),
    )  # fmt: skip
    each = [
        resampled_bias(
            present[:, label], [said[:, label]], [woman, ~woman], metrics, n_classes=2,
            class_id=1, draws=5,
        )
        for label in range(3)
    ]  # fmt: skip
    assert together == pytest.approx(np.mean(each, axis=0))


def test_survival_is_over_runs_and_whole_photographs(home: Path, compared: dict[str, Any]) -> None:
    means = {(name, variant): bias(home, name, variant, "EOTP")
             for name in HARM for variant in ("dense", "small")}  # fmt: skip
    gains = {v: means["base", v] - means["fair", v] for v in ("dense", "small")}
    rows = {
        row["what"]: row
        for row in compared["rows"]
        if (row["question"], row["group"], row["metric"]) == ("survival", "fair", "EOTP")
    }
    assert rows["survival"]["value"] == pytest.approx(gains["small"].mean() / gains["dense"].mean())
    assert rows["survival"]["high"] < 1
    # The gain's interval: runs by their spread, photographs by a bootstrap of our own.
    rng, drawn = np.random.default_rng(1), []
    for _ in range(150):
        chosen = rng.integers(0, PHOTOGRAPHS, PHOTOGRAPHS)
        drawn.append(np.mean(bias(home, "base", "dense", "EOTP", chosen)
                             - bias(home, "fair", "dense", "EOTP", chosen)))  # fmt: skip
    se = np.sqrt(np.var(gains["dense"], ddof=1) / MODELS + np.var(drawn))
    gain = rows["gain dense"]
    assert (gain["high"] - gain["low"]) / 2 == pytest.approx(1.96 * se, rel=0.35)


def test_techniques_for_several_labels_are_trained_and_compared(tmp_path: Path) -> None:
    EXAMPLE["write"](tmp_path, train=60, test=40)
    text = TABLE.replace("steps: 12", "steps: 6").replace("models: 2", "models: 8")
    text = text.replace(", {int8: [static]}", "").replace("keep_scores: full", "keep_scores: true")
    contest = "tournament: {attribute: gender, techniques: [R1, A4]}\n"
    (tmp_path / "audit.yaml").write_text(text + contest)
    out = tmp_path / "out"
    code, said, err = scotoma("compare", tmp_path / "audit.yaml", "--techniques", "--out", out,
                              "--json")  # fmt: skip
    assert code == 0, err
    found = json.loads(said)
    assert found["failed"] == []
    assert {cell["technique"] for cell in found["cells"]} <= {"R1", "A4"}
    assert len({run["technique"] for run in found["runs"]}) == 3
    minority = [row for row in found["rows"] if row["question"] == "minority"]
    truth = pl.read_csv(tmp_path / "photographs" / "labels.csv")
    taught = truth.filter(split="train").group_by("sex").agg(pl.col(LABELS).sum()).sort("sex")
    tested = truth.filter(split="test").group_by("sex").agg(pl.col(LABELS).sum()).sort("sex")
    counts = [one.select(LABELS).to_numpy() for one in (taught, tested)]
    rare = counts[0] < counts[0].max(axis=0)
    shares = {row["value"] for row in minority if row["what"] == "share of test set"}
    assert shares == {(counts[1] * rare).sum() / (40 * len(LABELS))}
