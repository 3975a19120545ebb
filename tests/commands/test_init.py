"""`scotoma init`: its draft passes `scotoma audit --plan`, whatever the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from PIL import Image

from tests.helpers.commands import scotoma
from tests.helpers.external_models import external_model

pytestmark = pytest.mark.slow

LABELS: dict[str, list[Any]] = {
    "numbers": [0, 1],
    "fractions": [0.0, 1.0],
    "truths": [False, True],
    "words": ["<=50K", ">50K"],
    "case": ["Neg", "pos"],
    "several": ["cat", "dog", "owl", "yak"],
}
IDS: dict[str, Callable[[int], list[Any]]] = {
    "id": lambda n: list(range(n)),
    "example_id": lambda n: [f"p{row}" for row in range(n)],
    "image": lambda n: [f"a/{row}.png" for row in range(n)],
    "": lambda n: [],
}
NAMES = ("pred_{}", "{}", "y_pred_{}", "{}_pred", "prediction.{}")
COLUMNS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "sex": lambda rng, n: rng.choice(["f", "m"], n),
    "age": lambda rng, n: rng.integers(18, 90, n),
    "born": lambda rng, n: [f"19{50 + row % 40}-{1 + row % 12:02d}-01" for row in range(n)],
    "score": lambda rng, n: rng.random(n),
    "prob_int8": lambda rng, n: rng.random(n),
    "fp32_logit": lambda rng, n: rng.normal(0, 1, n),
    "region": lambda rng, n: rng.choice(["N", "S", "E", "?", "NA"], n),
    "income": lambda rng, n: rng.normal(3e4, 1e4, n),
    "split": lambda rng, n: rng.choice(["val", "test"], n),
    "fold": lambda rng, n: rng.choice(["Train", "Validation", "Test"], n),
    "same": lambda rng, n: ["x"] * n,
    "empty": lambda rng, n: [None] * n,
    "text": lambda rng, n: [f'a "{row}", é' for row in range(n)],
    "bmi": lambda rng, n: [None if one < 0.1 else 20 + one for one in rng.random(n)],
    "x.y": lambda rng, n: rng.choice([" a", "b", "B"], n),
}
OF_MODELS = {"score", "prob_int8", "fp32_logit"}
SPLITS = {"split", "split_", "fold"}


def people(seed: int) -> pl.DataFrame:
    """A table with predictions of two variants, of one of many kinds."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([60, 200, 500]))
    names = LABELS[list(LABELS)[seed % len(LABELS)]]
    name = list(IDS)[int(rng.integers(len(IDS)))]
    label = rng.integers(0, len(names), n)
    columns: dict[str, Any] = {name: IDS[name](n)} if name else {}
    columns[str(rng.choice(["label", "target", "Class"]))] = [names[one] for one in label]
    models = 1 + int(rng.integers(2))
    style = NAMES[int(rng.integers(len(NAMES)))]
    for variant in rng.choice(["fp32", "int8", "prune50", "int4"], 2, replace=False):
        for model in range(models):
            said = np.where(rng.random(n) < 0.15, rng.integers(0, len(names), n), label)
            ending = f"_{model}" if models > 1 else ""
            columns[style.format(variant) + ending] = [names[one] for one in said]
    for column in rng.choice(list(COLUMNS), 5, replace=False):
        columns[str(column)] = COLUMNS[str(column)](rng, n)
    return pl.DataFrame({key: pl.Series(list(own), strict=False) for key, own in columns.items()})


@pytest.mark.parametrize("seed", range(18))
def test_a_draft_of_any_table_passes_check_and_scores_of_models_are_no_groups(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = people(seed)
    name = "t.parquet" if seed % 3 == 0 else "t.csv"
    table.write_parquet(name) if seed % 3 == 0 else table.write_csv(name)
    out = "drafts/audit.yaml" if seed % 2 else "audit.yaml"
    Path(out).parent.mkdir(exist_ok=True)
    code, _, err = scotoma("init", name, "--out", out)
    assert code == 0, err
    code, _, err = scotoma("audit", "--plan", out, "--quiet")
    assert code == 0, err
    groups = yaml.safe_load(Path(out).read_text()).get("groups", {})
    assert not {*groups} & (OF_MODELS | SPLITS)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"files": "nowhere/*.csv"}, "matches no file"),
        ({"words": True}, "t.csv"),
    ],
)
def test_what_check_would_refuse_is_not_drafted(
    change: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people(0).rename({people(0).columns[0]: "id"}).write_csv("t.csv")
    asked = ["--predictions", "nowhere/*.csv"] if "files" in change else ["--predicted", "sex"]
    if "words" in change:
        pl.DataFrame(
            {"id": [1, 2], "label": ["a", "b"], "x": ["p", "q"], "z": ["a", "q"]}
        ).write_csv("t.csv")
        asked = ["--predicted", "x", "--predicted", "z"]
    code, out, err = scotoma("init", "t.csv", *asked)
    assert (code in (2, 4), out) == (True, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not Path("audit.yaml").exists()


@pytest.mark.parametrize("baseline", ["dense", "fp32", "bf16"])
@pytest.mark.parametrize("split", [False, True])
def test_files_of_several_labels_are_drafted_with_their_baseline(
    baseline: str, split: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(3), 200
    labels = {name: rng.integers(0, 2, n) for name in ("cat", "dog")}
    ids = [f"e{row}" for row in range(n)]
    more = {"split": ["test"] * n} if split else {}
    sexes = rng.choice(["f", "m"], n)
    pl.DataFrame({"example_id": ids, **labels, "sex": sexes, **more}).write_csv("t.csv")
    for variant, wrong in ((baseline, 0.1), ("int8", 0.2)):
        Path("preds", variant).mkdir(parents=True)
        scores = {k: 0.1 + 0.8 * (own ^ (rng.random(n) < wrong)) for k, own in labels.items()}
        pl.DataFrame({"example_id": ids, **scores}).write_csv(f"preds/{variant}/0.csv")
    asked = ("--label", "cat,dog", "--predictions", "preds/{variant}/{model}.csv")
    code, _, err = scotoma("init", "t.csv", *asked)
    assert code == 0, err
    drafted = yaml.safe_load(Path("audit.yaml").read_text())
    assert drafted.get("baseline", "dense") == baseline
    assert list(drafted["groups"]) == ["sex", "intersections"]
    code, _, err = scotoma("audit", "--plan", "audit.yaml", "--quiet")
    assert code == 0, err


@pytest.mark.parametrize("form", ["json", "markdown", "html", "csv"])
def test_a_draft_that_is_printed_is_not_written(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people(0).write_csv("t.csv")
    assert scotoma("init", "t.csv", "--out", "written.yaml", "--quiet") == (0, "", "")
    written = yaml.safe_load(Path("written.yaml").read_text())
    code, out, err = scotoma("init", "t.csv", f"--{form}")
    assert [path.name for path in Path().glob("*.yaml")] == ["written.yaml"]
    if form == "csv":
        assert (code, out, err.count("\n")) == (2, "", 1)
    else:
        assert (code, err) == (0, "")
        assert "source:" in out if form == "html" else yaml.safe_load(out) == written


def test_predictions_0_and_1_with_a_point_are_predictions_of_labels_0_and_1(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = shared / "data" / "cases" / "init-float-predictions" / "wide.csv"
    for out, asked in (("audit.yaml", ()), ("a.yaml", ("--predicted", "pred_*"))):
        code, _, err = scotoma("init", table, "--out", out, *asked)
        assert code == 0, err
        assert "predictions of 'fp32', 'int8' in columns 'pred_fp32', 'pred_int8'" in err
        code, _, err = scotoma("audit", "--plan", out, "--quiet")
        assert code == 0, err


@pytest.mark.parametrize("long", [False, True])
def test_the_column_of_predictions_can_be_named(
    long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    label, sex = rng.choice(["no", "yes"], 300), rng.choice(["f", "m"], 300)
    examples = pl.DataFrame({"id": range(300), "label": label, "sex": sex})
    examples.write_csv("examples.csv")
    Path("preds").mkdir()
    parts = {
        variant: pl.DataFrame(
            {"id": range(300), "answer": np.where(rng.random(300) < error, "no", label)}
        )
        for variant, error in (("fp32", 0.1), ("int8", 0.3))
    }
    if long:
        named = [part.with_columns(variant=pl.lit(name)) for name, part in parts.items()]
        pl.concat(named).write_csv("preds/all.csv")
    else:
        for name, part in parts.items():
            part.write_csv(f"preds/{name}.csv")
    pattern = "preds/all.csv" if long else "preds/{variant}.csv"
    asked = ("examples.csv", "--predictions", pattern, "--predicted", "answer")
    code, _, err = scotoma("init", *asked)
    assert code == 0, err
    source = yaml.safe_load(Path("audit.yaml").read_text())["source"]
    assert (source["predicted"], "columns" in source) == ("answer", False)
    code, out, err = scotoma("audit", "--plan", "audit.yaml", "--json")
    assert code == 0, err
    assert json.loads(out)["error"] == pytest.approx((parts["fp32"]["answer"] != label).mean())
    draft = yaml.safe_load(Path("audit.yaml").read_text())
    draft["source"]["predicted"] = "answr"
    Path("wrong.yaml").write_text(yaml.safe_dump(draft))
    code, _, err = scotoma("audit", "--plan", "wrong.yaml")
    assert code == 4
    assert "must have the column 'answr'" in err
    assert "did you mean 'answer'" in err


def images(home: Path, splits: dict[str, int]) -> None:
    """Pictures of two classes, and their table with a column `split`."""
    (home / "images").mkdir()
    rows = ["image,label,sex,split"]
    for split, count in splits.items():
        for place in range(count):
            name = f"{split}{place}.png"
            Image.new("RGB", (12, 8), (4 * place, 90, 0)).save(home / "images" / name)
            rows.append(f"{name},{'no' if place % 2 else 'yes'},{'fm'[place // 2 % 2]},{split}")
    (home / "attributes.csv").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        (("training", "val", "test"), {"train": "training", "calibrate": "val", "test": "test"}),
        (("train", "Valid"), {"train": "train", "test": "Valid"}),
        (("TRAIN", "dev", "holdout"), {"train": "TRAIN", "calibrate": "dev", "test": "holdout"}),
    ],
)
def test_splits_of_any_words_are_understood(
    splits: tuple[str, ...], expected: dict[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    images(tmp_path, dict.fromkeys(splits, 40))
    code, _, err = scotoma("init", "attributes.csv", "--images", "images")
    assert code == 0, err
    draft = yaml.safe_load(Path("audit.yaml").read_text())
    assert draft["source"]["split"] == {"column": "split"} | expected
    assert list(draft["groups"]) == ["sex"]
    code, _, err = scotoma("audit", "--plan", "audit.yaml", "--quiet", "--no-trial")
    assert code == 0, err


PROCESSOR = {
    "do_resize": True, "size": {"height": 8, "width": 12}, "do_center_crop": False,
    "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.3],
}  # fmt: skip


@pytest.mark.parametrize("beside", [True, False])
def test_preprocessing_of_models_is_drafted_or_asked_for(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    images(tmp_path, {"val": 40, "test": 40})
    for variant in ("dense", "int8"):
        (tmp_path / "models" / variant).mkdir(parents=True)
        external_model(tmp_path / "models" / variant / "m.onnx")
    if beside:
        (tmp_path / "models" / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    asked = ("--images", "images", "--models", "models", "--label", "label")
    code, _, err = scotoma("init", "attributes.csv", *asked)
    assert code == 0, err
    text = Path("audit.yaml").read_text()
    source = yaml.safe_load(text)["source"]
    assert source["split"]["test"] == "test"
    if beside:
        assert source["preprocessing"]["mean"] == [0.5, 0.4, 0.3]
        assert source["preprocessing"]["std"] == [0.2, 0.25, 0.3]
        assert "Which pixels" not in text + err
    else:
        assert "# Which pixels do the models take?" in text
        assert "Which pixels do the models take?" in err
    code, _, err = scotoma("audit", "--plan", "audit.yaml", "--quiet", "--no-trial")
    assert code == 0, err
