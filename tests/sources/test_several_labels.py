"""Examples of several labels: a row of every pair, and whole examples again where that is asked."""

from __future__ import annotations

import json
import runpy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.bias.member_fairness import member_fairness
from scotoma.config import Config, load_config, parse_config
from scotoma.config.label import Label
from scotoma.datasets.coco_labels import coco_labels
from scotoma.datasets.label_pairs import label_pairs
from scotoma.errors import DataError
from scotoma.impact.average_precision import (
    average_precision,
    label_precisions,
    mean_precision,
)
from scotoma.numbers import COMPRESSED, Number
from scotoma.run import Run
from scotoma.sources.reading import load_examples, open_examples, survey_examples
from scotoma.steps.prepare import prepare
from scotoma.steps.table import groups
from tests.helpers.audits import addresses, rates
from tests.helpers.commands import scotoma

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "several_labels.py"))
LABELS = list(EXAMPLE["LABELS"])
CONFIG = """\
project: photographs
source: {kind: predictions, files: "scores/{variant}/{model}.parquet", examples: photographs.csv}
label: {columns: [bicycle, dog, handbag, umbrella], thresholds: {dog: 0.4}}
groups:
  sex: {column: sex}
  intersections: [[label_name, sex]]
keep_scores: true
tracking: {uri: "off"}
"""
CUT = np.array([0.5, 0.4, 0.5, 0.5])


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("labels")
    EXAMPLE["write"](home, photographs=400, models=3, harm=1.5)
    (home / "audit.yaml").write_text(CONFIG)
    run = Run.create(home / "run", load_config(home / "audit.yaml").completed())
    for group in groups(run.config):
        for step in group:
            step.function(run)
    return home


@pytest.fixture(scope="module")
def audit(audited: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((audited / "run" / "audit.json").read_text())
    return content


def tables(home: Path) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """Photographs, and scores by variant, shape (models, N, L)."""
    photographs = pl.read_csv(home / "photographs.csv")
    scores = {
        variant: np.stack(
            [pl.read_parquet(home / f"scores/{variant}/{m}.parquet")[LABELS] for m in range(3)]
        )
        for variant in ("dense", "int8")
    }
    return photographs, scores


def test_groups_of_labels_and_people_have_the_rates_of_the_tables(
    audited: Path, audit: dict[str, Any]
) -> None:
    photographs, scores = tables(audited)
    found = {(row["metric"], row["group"]): row for row in rates(audit, "int8")}
    for (place, label), sex in product(enumerate(LABELS), ("female", "male")):
        rows = (photographs["sex"] == sex).to_numpy() & (photographs[label] == 1).to_numpy()
        row = found["fnr", f"label_name={label},sex={sex}"]
        for side, variant in (("dense", "dense"), ("compressed", "int8")):
            missed = (scores[variant][:, rows, place] < CUT[place]).mean()
            assert row[side]["value"] == pytest.approx(missed)
    assert audit["examples"]["clusters"] == 400
    worst = max(found.values(), key=lambda row: row["absolute"]["value"] or -1)
    assert worst["group"] == "label_name=umbrella,sex=female"


def precisions(audit: dict[str, Any], variant: str) -> list[float]:
    """Average precision: the mean over labels, then each."""
    found = addresses(audit, "labels", variant=variant, metric="average precision")
    return [at["average precision"]["number"]["value"] for at in found]


def test_whole_examples_change_as_their_sets_of_labels_do(
    audited: Path, audit: dict[str, Any]
) -> None:
    _, scores = tables(audited)
    sets = {name: (own >= CUT).transpose(1, 0, 2) for name, own in scores.items()}
    differ = [
        any(sets["dense"][n, a, k] != sets["int8"][n, b, k] for k in range(len(LABELS)))
        for n, a, b in product(range(400), range(3), range(3))
    ]
    modal = {name: own.sum(axis=1) >= 2 for name, own in sets.items()}
    rows = addresses(audit, "labels", variant="int8")[0]
    changed = {what: rows[what]["number"] for what in ("CIEs", "disagreement", "excess")}
    assert changed["disagreement"]["value"] == pytest.approx(np.mean(differ))
    assert changed["CIEs"]["value"] == int((modal["dense"] != modal["int8"]).any(axis=1).sum())
    assert changed["excess"]["low"] < changed["excess"]["value"] < changed["excess"]["high"]


def test_average_precision_is_that_of_scikit_learn(audited: Path, audit: dict[str, Any]) -> None:
    from sklearn.metrics import average_precision_score

    photographs, scores = tables(audited)
    truth = photographs[LABELS].to_numpy()
    for variant, own in scores.items():
        mean, *rows = precisions(audit, variant)
        each = [
            np.mean([average_precision_score(truth[:, k], own[m, :, k]) for m in range(3)])
            for k in range(len(LABELS))
        ]
        # Scores are kept in float16.
        assert rows == pytest.approx(each, abs=2e-3)
        assert mean == pytest.approx(np.mean(each), abs=2e-3)


def test_the_seven_metrics_are_means_over_labels(audited: Path, audit: dict[str, Any]) -> None:
    photographs, scores = tables(audited)
    truth, woman = photographs[LABELS].to_numpy(), (photographs["sex"] == "female").to_numpy()
    found = addresses(audit, "fairness", variant="int8")
    runs = {at["metric"]: at["mean"] for at in found if "mean" in at}
    for model in range(3):
        hits = scores["int8"][model] >= CUT
        each = [
            member_fairness(
                truth[:, k], hits[:, [k]].astype(int), [woman, ~woman], n_classes=2, class_id=1
            )
            for k in range(len(LABELS))
        ]
        for metric, row in runs.items():
            expected = np.mean([own[metric].values[0] for own in each])
            assert row["models"][model] == pytest.approx(expected)
    measured = addresses(audit, "clarify", variant="int8")
    assert {at["attribute"] for at in measured} == {"sex"}


def test_label_fairness_follows_the_formula_of_the_study() -> None:
    rng = np.random.default_rng(5)
    present, predicted = rng.integers(0, 2, (2, 60)), rng.integers(0, 2, 60)
    y, p, label = present[0], predicted, np.arange(60) % 3
    woman = (rng.random(20) < 0.5).repeat(3)  # a row for each label of each example
    found = member_fairness(y, p[:, None], [woman, ~woman], n_classes=2, of_label=label)
    dp = [abs(p[(label == k) & woman].mean() - p[(label == k) & ~woman].mean()) for k in range(3)]
    assert found["DP"].per_class[0] == pytest.approx(dp)
    assert found["DP"].values[0] == pytest.approx(np.mean(dp))


def test_average_precision_and_its_derivative_with_ties() -> None:
    from sklearn.metrics import average_precision_score as oracle

    rng = np.random.default_rng(0)
    y = rng.random(40) < 0.3
    s = np.round(rng.normal(size=40) + y, 1)
    value, moves = average_precision(y, s)
    assert value == pytest.approx(oracle(y, s))
    for row in range(40):
        weights = np.ones(40)
        weights[row] += 1e-6
        moved = (oracle(y, s, sample_weight=weights) - value) / 1e-6
        assert moves[row] == pytest.approx(moved, abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("harm", [0.0, 0.5])
def test_intervals_of_map_hold_the_truth(harm: float) -> None:
    rng = np.random.default_rng(1)

    def drawn(n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y = rng.random((n, 3)) < [0.1, 0.2, 0.3]
        hard = rng.normal(size=(n, 3, 1))
        dense, int8 = (
            2 * y[..., None] + hard + 0.5 * rng.normal(size=(n, 3, k))
            + 0.1 * rng.normal(size=(1, 3, k)) for _ in range(2)
        )  # fmt: skip
        return y, dense, int8 + harm * rng.normal(size=(n, 3, 1))

    def change_of(n: int, k: int) -> Number:
        y, dense, int8 = drawn(n, k)
        was, now = label_precisions(y, dense), label_precisions(y, int8, axis=COMPRESSED)
        return mean_precision(now).since(mean_precision(was))

    truth = np.mean([change_of(100_000, 3).value for _ in range(3)])
    held = 0
    for _ in range(300):
        change = change_of(600, 6).estimate()
        held += change.low <= truth <= change.high
    assert 0.91 <= held / 300 <= 0.995


SENTENCES = {
    "a count": (
        {"photographs": pl.col("dog") * 2},
        "label column 'dog' of {home}/photographs.csv must hold 0 or 1, got '2' in the row",
    ),
    "a logit": (
        {"score": pl.col("dog") * 30 - 3},
        "{home}/scores/int8/0.parquet must hold a number from 0 to 1 for every label, got ",
    ),
    "an unknown label": (
        {"score": pl.col("dog").alias("dig")},
        "{home}/scores/int8/0.parquet must have a column for the label 'dog', got ",
    ),
}


@pytest.mark.parametrize("fault", SENTENCES)
def test_bad_tables_are_refused_in_a_sentence(fault: str, tmp_path: Path) -> None:
    EXAMPLE["write"](tmp_path, photographs=50, models=1)
    change, sentence = SENTENCES[fault]
    table, path = tmp_path / "photographs.csv", tmp_path / "scores/int8/0.parquet"
    if "photographs" in change:
        pl.read_csv(table).with_columns(change["photographs"]).write_csv(table)
    else:
        kept = pl.read_parquet(path)
        (kept.drop("dog") if "unknown" in fault else kept).with_columns(
            kept.select(change["score"]).to_series()
        ).write_parquet(path)
    (tmp_path / "audit.yaml").write_text(CONFIG)
    run = Run.create(tmp_path / "run", load_config(tmp_path / "audit.yaml").completed())
    with pytest.raises(DataError) as refused:
        prepare(run)
    assert str(refused.value).startswith(sentence.format(home=tmp_path))
    assert "\n" not in str(refused.value)


def test_no_answer_to_a_label_is_wrong(tmp_path: Path) -> None:
    """Admission: "No answer is an answer: an example that is there without one counts as wrong"."""
    from sklearn.metrics import average_precision_score

    EXAMPLE["write"](tmp_path, photographs=200, models=1)
    truth = pl.read_csv(tmp_path / "photographs.csv")[LABELS].to_numpy() == 1
    gone = np.random.default_rng(0).random(truth.shape) < 0.1
    path = tmp_path / "scores/int8/0.parquet"
    table = pl.read_parquet(path)
    scores = table[LABELS].to_numpy()
    marks = [None if own else f"{one}" for own, one in zip(gone[:, 0], scores[:, 0], strict=True)]
    marks[int(gone[:, 0].argmax())] = "n/a"
    columns = [
        pl.Series(name, np.where(gone[:, k], np.nan, scores[:, k])) for k, name in enumerate(LABELS)
    ]
    columns[0] = pl.Series(LABELS[0], marks)
    table.with_columns(columns).write_parquet(path)
    (tmp_path / "audit.yaml").write_text(CONFIG)
    code, _, err = scotoma("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run", "--quiet")
    assert code == 0, err
    audit = json.loads((tmp_path / "run" / "audit.json").read_text())
    wrong = ((scores >= CUT) != truth) | gone
    rows = {(one["group"], one["metric"]): one for one in rates(audit, "int8")}
    assert rows["all", "error"]["compressed"]["value"] == pytest.approx(wrong.mean())
    assert rows["all", "fpr"]["compressed"]["value"] == pytest.approx(wrong[~truth].mean())
    assert rows["all", "fnr"]["compressed"]["value"] == pytest.approx(wrong[truth].mean())
    for k, name in enumerate(LABELS):
        (own,) = [one for key, one in rows.items() if key == (f"label_name={name}", "error")]
        assert own["compressed"]["value"] == pytest.approx(wrong[:, k].mean())
    (all_of, *_) = rates(audit, "int8", "unanswered")
    assert all_of["compressed"]["value"] == pytest.approx(gone.mean())
    ranked = np.where(gone, 1.0 - truth, scores)
    precision = [average_precision_score(truth[:, k], ranked[:, k]) for k in range(len(LABELS))]
    own = precisions(audit, "int8")[0]
    assert own == pytest.approx(np.mean(precision), abs=2e-3)  # scores are kept as float16
    (note,) = [one for one in audit["admission"] if one["rule"] == "unanswered"]
    assert f"gives no answer to {gone.sum()} of 800 examples" in note["sentence"]


def test_lists_in_one_column_are_the_same_predictions(tmp_path: Path) -> None:
    from scotoma.predictions.patterns import find_tables
    from scotoma.predictions.tables import read_label_columns

    bits = np.random.default_rng(0).random((30, 4)) < 0.4
    ids = [f"{k}.jpg" for k in range(30)]
    wide = pl.DataFrame({"example_id": ids, **{name: bits[:, k] for k, name in enumerate(LABELS)}})
    (tmp_path / "wide").mkdir()
    wide.write_parquet(tmp_path / "wide" / "0.parquet")
    (tmp_path / "list").mkdir()
    matrix = pl.Series("predicted", bits, dtype=pl.Array(pl.Boolean, 4))
    pl.DataFrame({"example_id": ids, "predicted": matrix}).write_parquet(
        tmp_path / "list" / "0.parquet"
    )
    read = {
        table.from_name["variant"]: read_label_columns(table, dict.fromkeys(LABELS, 0.5))
        for table in find_tables(f"{tmp_path}/{{variant}}/{{model}}.parquet")
    }
    assert read["list"].drop("variant").equals(read["wide"].drop("variant"))
    shown = (read["wide"]["predicted"] == "present").to_numpy().reshape(30, 4)
    assert (shown == bits).all()


def test_a_taken_column_is_refused() -> None:
    table = pl.DataFrame({"example_id": ["a"], "cat": [1], "dog": [0], "label_name": ["x"]})
    with pytest.raises(DataError, match=r"name another label\.attribute"):
        label_pairs(table, Label(columns=["cat", "dog"]), "t.csv")


def test_instances_and_captions_of_coco_are_the_same_examples(tmp_path: Path) -> None:
    EXAMPLE["write"](tmp_path, photographs=60, models=1)
    (tmp_path / "csv.yaml").write_text(CONFIG)
    coco = CONFIG.replace("photographs.csv", "instances.json, captions: captions.json")
    (tmp_path / "coco.yaml").write_text(coco.replace("{column: sex}", "{column: gender}"))
    tables = [load_examples(load_config(tmp_path / f"{way}.yaml")).table for way in ("csv", "coco")]
    assert tables[0].drop("image_name", strict=False).equals(tables[1].drop("image_name"))
    assert tables[1]["image_name"][0] == "00001.jpg"


FAULTS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "must hold JSON, and it does not"),
    "a list": ([], "must hold the keys images, categories and annotations of COCO, got a list"),
    "an id that is none": ({"images": [{"id": [1]}]}, "an id must be a whole number or text"),
    "an unknown category": (
        {"annotations": [{"image_id": 1, "category_id": 9}]},
        "must list the category of every annotation, got one of category '9'",
    ),
    "an unknown image": (
        {"annotations": [{"image_id": 7, "category_id": 1}]},
        "must list the image of every annotation, got one of image '7'",
    ),
    "an image twice": (
        {"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]},
        "must list each of its images once, got 2 with 1 different ids or names",
    ),
    "no name": ({"categories": [{"id": 1}]}, "number 0 does not (no 'name')"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_instances_are_refused_in_a_sentence(fault: str, tmp_path: Path) -> None:
    change, sentence = FAULTS[fault]
    whole = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}],
        "annotations": [],
    }
    content = whole | change if isinstance(change, dict) else change
    path = tmp_path / "i.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError) as refused:
        coco_labels(path, "i.json")
    assert sentence in str(refused.value)


# --- imSitu: verbs of images, and the gender that annotators name ---------------------------------


SPACE = {
    "nouns": {
        "n1": {"gloss": ["woman", "adult female"]},
        "n2": {"gloss": ["man", "adult male"]},
        "n3": {"gloss": ["dog"]},
    }
}
SITUATIONS = {
    "jumping_1.jpg": {"verb": "jumping", "frames": [{"agent": "n1"}, {"agent": "n3"}]},
    "jumping_2.jpg": {"verb": "jumping", "frames": [{"agent": "n2"}, {"agent": "n1"}]},
    "eating_1.jpg": {"verb": "eating", "frames": [{"agent": "n2", "food": ""}, {"agent": ""}]},
    "eating_2.jpg": {"verb": "eating", "frames": [{"food": "n3"}]},
}
IMSITU = """\
source: {kind: imsitu, data: imsitu, model: tiny-convnet, size: 16}
label: {column: verb}
groups: {gender: {column: gender}}
variants: [dense, {prune: [0.9]}]
tracking: {uri: "off"}
"""


def imsitu(home: Path, situations: dict[str, Any] = SITUATIONS) -> Config:
    place = home / "imsitu" / "of500_images_resized"
    place.mkdir(parents=True)
    for split in ("train", "test"):
        own = {f"{split}_{name}": one for name, one in situations.items()}
        (home / "imsitu" / f"{split}.json").write_text(json.dumps(own))
        for name in own:
            Image.new("RGB", (40, 30)).save(place / name)
    (home / "imsitu" / "imsitu_space.json").write_text(json.dumps(SPACE))
    return parse_config(IMSITU.replace("data: imsitu", f"data: {home}/imsitu"), "audit.yaml")


def test_imsitu_has_verbs_and_the_gender_that_all_annotators_together_name(tmp_path: Path) -> None:
    config = imsitu(tmp_path)
    examples, parts = open_examples(config)
    table = examples.split("test").table
    assert table.select("example_id", "label", "gender").rows() == [
        ("test_jumping_1.jpg", "jumping", "female"),
        ("test_jumping_2.jpg", "jumping", "(missing)"),
        ("test_eating_1.jpg", "eating", "male"),
        ("test_eating_2.jpg", "eating", "(missing)"),
    ]
    assert pl.concat(parts)["image"].null_count() == 0
    source = config.source.model_copy(update={"one_gender": True})
    one = config.model_copy(update={"source": source})
    left = survey_examples(one).examples
    assert left.split("test").ids == ["test_jumping_1.jpg", "test_eating_1.jpg"]
    assert left.notes == ("4 of 8 images name no gender, or women and men, and are left out",)


def test_a_situation_without_verb_is_refused(tmp_path: Path) -> None:
    config = imsitu(tmp_path, {"a.jpg": {"frames": []}})
    with pytest.raises(
        DataError, match=r"must give each image its verb and frames, .*lacks 'verb'"
    ):
        survey_examples(config)
