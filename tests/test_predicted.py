"""The audit of predictions made elsewhere: from tables to the report, without torch."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image, PngImagePlugin
from scipy import stats

from scotoma.config import load_config, parse_config
from scotoma.config.model import Population
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.predictions import Predictions
from scotoma.run import Run, read_json
from scotoma.stages.external.predictions import complete, named_images
from scotoma.stages.predict import predict
from scotoma.stages.prepare import prepare
from scotoma.stages.prune import prune
from scotoma.stages.quantize import quantize
from scotoma.stages.report import draw
from scotoma.stages.shards import shards
from scotoma.stages.steps import STEPS
from scotoma.stages.train import train
from tests.commands import scotoma

pytestmark = pytest.mark.slow

CONFIG = """\
project: elsewhere
source:
  kind: predictions
  files: preds/{variant}/{model}.csv
  examples: examples.csv
baseline: fp32
label: {column: label, positive: cat}
groups:
  sex: {column: sex}
tracking: {uri: "off"}
"""
CLASSES = ["bird, small", "cat", "=dog()"]
# What a core installation lacks: importing any of it ends the process that tries.
ABSENT = ("torch", "torchvision", "onnx", "onnxruntime", "sklearn", "safetensors", "mlflow")


def write(home: Path, *, models: int = 1, n: int = 300) -> Path:
    """Tables of predictions: `int8` errs more often than `fp32`, above all on women."""
    rng = np.random.default_rng(7)
    ids = np.array([f"img/{i}.jpg" for i in range(n)])
    label = rng.choice(CLASSES, n)
    sex = rng.choice(["m", "f", None], n, p=[0.5, 0.4, 0.1])
    examples = pl.DataFrame({"example_id": ids, "label": label, "sex": sex.tolist()})
    examples.write_csv(home / "examples.csv")
    for variant, rate in {"fp32": 0.1, "int8": 0.15}.items():
        (home / "preds" / variant).mkdir(parents=True)
        for model in range(models):
            wrong = rng.random(n) < np.where((sex == "f") & (variant == "int8"), 3 * rate, rate)
            said = np.where(wrong, rng.choice(CLASSES, n), label)
            order = rng.permutation(n)  # rows in any order
            table = pl.DataFrame({"example_id": ids[order], "predicted": said[order]})
            table.write_csv(home / "preds" / variant / f"seed{model}.csv")
    (home / "audit.yaml").write_text(CONFIG)
    return home


def audited(home: Path, text: str = CONFIG, *, shard_count: int = 1) -> Run:
    """All steps from preparing to logging, in this process."""
    (home / "audit.yaml").write_text(text)
    run = Run.create(home / "run", complete(load_config(home / "audit.yaml")))
    prepare(run)
    for shard in shards(run.config.most_models, shard_count):
        for step in (
            train, prune, quantize, predict
        ):  # fmt: skip
            step(run, shard)
    steps = list(STEPS)
    for step in steps[steps.index("gather") :]:
        STEPS[step].function(run)
    return run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The commonest audit: one dense and one compressed model."""
    return audited(write(tmp_path_factory.mktemp("pair")))


def said(home: Path, variant: str, model: int) -> list[str]:
    """Predictions in the order of the examples, joined by a route of the test's own."""
    table = pl.read_csv(home / "preds" / variant / f"seed{model}.csv")
    known = dict(zip(table["example_id"], table["predicted"], strict=True))
    return [known[i] for i in pl.read_csv(home / "examples.csv")["example_id"]]


def test_every_prediction_finds_its_example_and_its_class(tmp_path: Path) -> None:
    run = audited(write(tmp_path, models=3), shard_count=2)
    for name, called in {"dense": "fp32", "int8": "int8"}.items():
        found = Predictions.read(run.predictions(name))
        assert found.members == (0, 1, 2)
        named = np.array(found.classes)[found.predicted]
        for model in range(3):
            assert named[:, model].tolist() == said(tmp_path, called, model)
    assert (
        read_json(run.population("int8") / "manifest.json")["members"][2]["taken_from"] == "seed2"
    )


def test_one_model_a_side_is_judged_over_examples_alone(pair: Run) -> None:
    audit = read_json(pair.path("audit.json"))
    assert audit["scope"] == "shipped"
    assert audit["variants"][1] | {"name": "", "bits": 0} == {
        "name": "", "kind": "predictions", "sparsity": 0.0, "mode": "", "bits": 0, "paired": False,
        "derived_from": None, "members": 1,
    }  # fmt: skip
    cie = audit["divergence"]["int8"]["cie"]
    assert cie["excess"]["value"] is None
    assert cie["excess"]["reason"].startswith("excess not estimable (one model per side: the CIEs ")
    row = next(
        row for row in audit["subgroups"]["int8"]
        if (row["group"], row["metric"]) == ("all", "error")
    )  # fmt: skip
    assert "one training run: says nothing about the next one" in row["absolute"]["note"]
    # The paired interval of a difference: the standard error of the mean of the differences, and
    # four flips that were not seen, each of a whole example.
    # With a positive class the error is that of `cat` against the rest.
    home = pair.root.parent
    cat = np.array(pl.read_csv(home / "examples.csv")["label"].to_list()) == "cat"
    wrong = [(np.array(said(home, variant, 0)) == "cat") != cat for variant in ("fp32", "int8")]
    change = wrong[1].astype(float) - wrong[0]
    assert row["absolute"]["value"] == pytest.approx(change.mean())
    assert row["absolute"]["se"] == pytest.approx(math.hypot(stats.sem(change), 2 / 304), rel=0.01)


def test_the_flip_list_is_the_examples_that_changed(pair: Run) -> None:
    scores = pl.read_parquet(pair.path("divergence.parquet"))
    home = pair.root.parent
    before, after = said(home, "fp32", 0), said(home, "int8", 0)
    flipped = [a != b for a, b in zip(before, after, strict=True)]
    assert scores["cie"].to_list() == flipped
    assert scores["compressed_modal"].to_list() == after
    audit = read_json(pair.path("audit.json"))
    assert audit["divergence"]["int8"]["cie"]["cie"]["count"] == sum(flipped)


def test_page_of_one_model_a_side_is_drawn_again_as_it_was_judged(tmp_path: Path) -> None:
    run = audited(write(tmp_path, n=1500))
    page = run.path("report.html").read_text(encoding="utf-8")
    gate = read_json(run.path("gate.json"))
    assert gate["rules"]["min"]["models"] == 1
    assert gate["verdict"] == "FAIL"
    assert "</span> FAIL</span></h2>" in page
    assert "members a variant is UNSURE" not in page
    blurred = draw(run, blur=True).read_text(encoding="utf-8")
    assert "</span> FAIL</span></h2>" in blurred
    assert draw(run).read_text(encoding="utf-8") == page


def test_what_is_missing_is_a_note_and_a_group(pair: Run) -> None:
    audit = read_json(pair.path("audit.json"))
    notes = audit["examples"]["notes"]
    assert notes[0] == "variant 'fp32' is the baseline and is called dense here"
    assert notes[1].startswith("attribute 'sex' is missing in ")
    assert "sex=(missing)" in [group["key"] for group in audit["groups"]]
    assert pair.path("report.html").stat().st_size > 10_000
    measured = read_json(pair.path("measurements.json"))
    assert measured["bytes_per_member"]["int8"]["reason"] == "the models were not taken in"


def test_a_changed_table_is_taken_in_again_and_an_equal_one_is_not(tmp_path: Path) -> None:
    run = audited(write(tmp_path))
    (shard,) = shards(1, 1)
    place = run.predictions("int8", 0)
    before = place.stat().st_mtime_ns
    train(run, shard)
    assert place.stat().st_mtime_ns == before
    file = tmp_path / "preds" / "int8" / "seed0.csv"
    file.write_text(file.read_text().replace(",cat", ",=dog()", 1))
    train(run, shard)
    assert place.stat().st_mtime_ns > before


def test_long_tables_in_parquet_and_whole_numbers_as_ids(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 120
    labels = rng.integers(0, 2, n)
    group = np.where(np.arange(n) % 3 == 0, "a", "b")
    table = {"example_id": np.arange(n), "label": labels, "group": group}
    pl.DataFrame(table).write_parquet(tmp_path / "examples.parquet")
    (tmp_path / "preds").mkdir()
    for part, models in enumerate((range(2), range(2, 4))):
        rows = [
            pl.DataFrame({
                "example_id": np.arange(n, dtype=float), "variant": variant, "model": model,
                "predicted": np.where(rng.random(n) < 0.2, 1 - labels, labels).astype(float),
                "score": rng.uniform(0.5, 1, n),
            })
            for variant in ("dense", "prune-0.9")
            for model in models
        ]  # fmt: skip
        pl.concat(rows).write_parquet(tmp_path / "preds" / f"{part}.parquet")
    run = audited(
        tmp_path,
        "source: {kind: predictions, files: 'preds/*.parquet', examples: examples.parquet}\n"
        "label: {column: label, positive: 1}\ngroups: {group: {column: group}}\n"
        "keep_scores: true\ntracking: {uri: 'off'}\n",
    )
    found = Predictions.read(run.predictions("prune-0.9"))
    assert found.predicted.shape == (n, 4)
    assert found.classes == ("0", "1")
    assert found.scores is not None
    whole = pl.concat([pl.read_parquet(tmp_path / "preds" / f"{part}.parquet") for part in (0, 1)])
    mine = whole.filter(variant="prune-0.9", model=3)
    assert found.predicted[:, 3].tolist() == mine["predicted"].cast(pl.Int64).to_list()
    np.testing.assert_allclose(found.scores[:, 3], mine["score"], atol=1e-3)
    code, out, _ = scotoma("gate", run.root)
    assert code == 0
    assert "With 4 members a variant, CIE counts are unstable" in out


def test_numbers_become_two_classes_at_a_threshold(tmp_path: Path) -> None:
    n = 60
    value = np.arange(n) / n
    sex = ["m", "f"] * (n // 2)
    table = {"example_id": [f"{i}" for i in range(n)], "score": value, "sex": sex}
    pl.DataFrame(table).write_csv(tmp_path / "examples.csv")
    (tmp_path / "preds").mkdir()
    for variant, shift in {"dense": 0.02, "int8": 0.1}.items():
        rows = {"example_id": table["example_id"], "predicted": value + shift}
        pl.DataFrame(rows).write_csv(tmp_path / "preds" / f"{variant}.csv")
    run = audited(
        tmp_path,
        "source: {kind: predictions, files: 'preds/{variant}.csv', examples: examples.csv}\n"
        "label: {column: score, threshold: 0.5}\ngroups: {sex: {column: sex}}\n"
        "tracking: {uri: 'off'}\n",
    )
    audit = read_json(run.path("audit.json"))
    assert audit["examples"]["classes"] == ["at least 0.5", "below 0.5"]
    assert audit["examples"]["positive"] == "at least 0.5"
    rates = {
        row["metric"]: (row["dense"]["value"], row["compressed"]["value"])
        for row in audit["subgroups"]["int8"] if row["group"] == "all"
    }  # fmt: skip
    # Of 30 values below 0.5 a shift of 0.02 lifts one (29/60) and 0.1 lifts six (24/60 upwards).
    assert rates["fpr"] == (pytest.approx(1 / 30), pytest.approx(6 / 30))


FAULTS: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "an id that no example has": (
        "preds/int8/seed0.csv",
        lambda t: t.with_columns(pl.col("example_id").replace("img/5.jpg", "img/x.jpg")),
        "predictions must be for examples of source.examples, but DIR/preds/int8/seed0.csv has 1 "
        "other, the first is 'img/x.jpg' of model 'seed0' of 'int8'; add it there, or remove the "
        "rows",
    ),
    "a row twice": (
        "preds/int8/seed0.csv",
        lambda t: pl.concat([t, t.filter(example_id="img/5.jpg")]),
        "model 'seed0' of 'int8' predicts example 'img/5.jpg' more than once; keep one row per "
        "example and model",
    ),
    "rows that are missing": (
        "preds/int8/seed0.csv",
        lambda t: t.filter(~pl.col("example_id").is_in(["img/5.jpg", "img/7.jpg"])),
        "model 'seed0' of 'int8' has no prediction for 2 of 300 examples, the first is "
        "'img/5.jpg'; predict them, or leave the model or the examples out",
    ),
    "a class that no example has": (
        "preds/int8/seed0.csv",
        lambda t: t.with_columns(
            pl.when(example_id="img/5.jpg").then(pl.lit("catt")).otherwise("predicted")
            .alias("predicted")
        ),
        "model 'seed0' of 'int8' predicts 'catt' for example 'img/5.jpg' (1 such rows in "
        "DIR/preds/int8/seed0.csv), which is no example's label; correct it, or name the class in "
        "source.classes; did you mean 'cat'?",
    ),
    "no prediction in a row": (
        "preds/int8/seed0.csv",
        lambda t: t.with_columns(pl.col("predicted").replace("cat", None)),
        "DIR/preds/int8/seed0.csv has ",
    ),
    "another name of a column": (
        "preds/int8/seed0.csv",
        lambda t: t.rename({"predicted": "prediction"}),
        "DIR/preds/int8/seed0.csv must have the column 'predicted', got example_id, prediction; "
        "did you mean 'prediction'?; rename a column",
    ),
    "examples without ids": (
        "examples.csv",
        lambda t: t.rename({"example_id": "id"}),
        "DIR/examples.csv must have the column 'example_id', got id, label, sex; rename a column",
    ),
    "an example twice": (
        "examples.csv",
        lambda t: pl.concat([t, t.filter(example_id="img/5.jpg")]),
        "example id 'img/5.jpg' stands in DIR/examples.csv twice; ids must be unique",
    ),
    "an example without label": (
        "examples.csv",
        lambda t: t.with_columns(
            pl.when(example_id="img/5.jpg").then(None).otherwise("label").alias("label")
        ),
        "label column 'label' is empty in 1 of 300 rows of DIR/examples.csv, the first is "
        "'img/5.jpg'; fill or remove them",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("file", "change", "sentence"), FAULTS.values(), ids=FAULTS.keys())
def test_what_does_not_fit_is_refused_in_one_sentence(
    tmp_path: Path, file: str, change: Callable[[pl.DataFrame], pl.DataFrame], sentence: str
) -> None:
    write(tmp_path)
    change(pl.read_csv(tmp_path / file)).write_csv(tmp_path / file)
    with pytest.raises(DataError) as caught:
        audited(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "DIR").startswith(sentence)


CONFIG_FAULTS = {
    "no file": (
        ("preds/{variant}", "pred/{variant}"),
        "source.files DIR/pred/{variant}/{model}.csv matches no file; * stands for",
    ),
    "no baseline": (
        ("baseline: fp32\n", ""),
        "source.files must hold a variant called 'dense', or baseline must name another; it has "
        "'fp32', 'int8': write baseline: fp32, if that is it",
    ),
    "another baseline": (
        ("baseline: fp32", "baseline: fp3"),
        "baseline 'fp3' is not in source.files, which has 'fp32', 'int8'; did you mean 'fp32'?",
    ),
    "more models than there are": (
        ("tracking", "population: {models: 2}\ntracking"),
        "population.models asks for 2 models of each variant, but 'fp32' has 1; correct the "
        "number, leave it out to take all that there are, or add models",
    ),
    "more models of a variant than it has": (
        ("tracking", "variants: [dense, {predictions: [int8], models: 2}]\ntracking"),
        "models asks for 2, but 'int8' has 1; correct the number, leave it out to take all that",
    ),
    "a variant that is not there": (
        ("tracking", "variants: [dense, {predictions: [int4]}]\ntracking"),
        "variants names 'int4', which is not among the compressed ones of source.files: 'int8'; "
        "did you mean 'int8'?",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), CONFIG_FAULTS.values(), ids=CONFIG_FAULTS.keys())
def test_what_the_files_do_not_hold_cannot_be_asked_for(
    tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    write(tmp_path)
    with pytest.raises(ScotomaError) as caught:
        audited(tmp_path, CONFIG.replace(*change))
    assert str(caught.value).replace(str(tmp_path), "DIR").startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "variants: [dense, {predictions: [a]}]",
            "variants holds {predictions: ...}, which is for source.kind predictions; list ",
        ),
        (
            CONFIG + "variants: [dense, {prune: [0.9]}]",
            "variants holds {prune: ...}, which needs networks that are trained here; name "
            "variants of source.files as {predictions: [...]}, or leave it out",
        ),
        (CONFIG + "variants: [dense, {predictions: ['../x']}]", "variants.1.predictions.0 "),
        (
            "baseline: fp32\nvariants: [dense, {prune: [0.9]}]",
            "baseline is for source.kind predictions; other sources use `dense`, so ",
        ),
        (CONFIG.replace("files:", "file:"), "known are kind, "),
    ],
)
def test_a_wrong_configuration_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "audit.yaml")
    assert sentence in str(caught.value)


def test_variants_of_unequal_size_are_cut_to_what_is_asked(tmp_path: Path) -> None:
    write(tmp_path, models=2)
    (tmp_path / "preds" / "int8" / "seed1.csv").unlink()
    run = audited(tmp_path, CONFIG + "population: {models: 1}\n")
    notes = read_json(run.path("audit.json"))["examples"]["notes"]
    assert "of 2 models of 'fp32' the first 1 by name are audited" in notes
    assert not any("'int8'" in note for note in notes)
    assert run.config.population == Population(models=1)


@pytest.mark.parametrize("shard_count", [1, 3])
def test_both_sides_may_have_different_numbers_of_models(tmp_path: Path, shard_count: int) -> None:
    """Three dense and two compressed: the last shard of three holds no compressed one."""
    write(tmp_path, models=3)
    (tmp_path / "preds" / "int8" / "seed2.csv").unlink()
    run = audited(tmp_path, shard_count=shard_count)
    assert Predictions.read(run.predictions("dense")).members == (0, 1, 2)
    assert Predictions.read(run.predictions("int8")).members == (0, 1)
    audit = read_json(run.path("audit.json"))
    assert {v["name"]: v["members"] for v in audit["variants"]} == {"dense": 3, "int8": 2}
    assert audit["scope"] == "shipped"
    cat = np.array(pl.read_csv(tmp_path / "examples.csv")["label"].to_list()) == "cat"

    def error(called: str, model: int) -> float:  # that of `cat` against the rest
        return float(np.mean((np.array(said(tmp_path, called, model)) == "cat") != cat))

    errors = [
        np.mean([error(called, model) for model in range(models)])
        for called, models in {"fp32": 3, "int8": 2}.items()
    ]
    row = next(
        r for r in audit["subgroups"]["int8"] if r["group"] == "all" and r["metric"] == "error"
    )
    assert row["absolute"]["value"] == pytest.approx(errors[1] - errors[0])
    again = complete(load_config(run.path("config.yaml")))  # what the folder has, read back
    assert again.digest() == run.config.digest()


def test_paired_models_are_as_many_on_both_sides(tmp_path: Path) -> None:
    write(tmp_path, models=3)
    text = CONFIG + "variants: [dense, {predictions: [int8], paired: true, models: 2}]\n"
    with pytest.raises(ConfigError, match="paired variants have as many models as dense, got"):
        parse_config(text, "audit.yaml")
    (tmp_path / "preds" / "int8" / "seed2.csv").unlink()
    with pytest.raises(ConfigError, match="are paired with those of 'fp32' by their names, but"):
        audited(tmp_path, text.replace(", models: 2", ""))


def test_models_are_paired_by_their_names_where_the_configuration_says_so(tmp_path: Path) -> None:
    write(tmp_path, models=3)
    text = CONFIG + "variants: [dense, {predictions: [int8], paired: true, bits: 8}]\n"
    run = audited(tmp_path, text)
    audit = read_json(run.path("audit.json"))
    assert audit["variants"][1]["paired"]
    assert audit["divergence"]["int8"]["flips"]["n"] == 300
    (tmp_path / "preds" / "int8" / "seed2.csv").rename(tmp_path / "preds" / "int8" / "other.csv")
    with pytest.raises(ConfigError, match="are paired with those of 'fp32' by their names, but"):
        complete(load_config(tmp_path / "audit.yaml"))


def test_a_variant_whose_name_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    long = pl.DataFrame(
        {"example_id": ["a"], "variant": ["../../x"], "model": ["0"], "predicted": ["cat"]}
    )
    long.write_csv(tmp_path / "preds" / "long.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG.replace("{variant}/{model}.csv", "long.csv"))
    with pytest.raises(DataError, match=r"variant '../../x' of source.files must have a name of "):
        complete(load_config(tmp_path / "audit.yaml"))


def test_images_that_the_table_names_are_shown_unless_they_lie_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home)
    (tmp_path / "secret.png").write_bytes(b"secret")
    (home / "a.png").write_bytes(b"\x89PNG")
    (home / "link.png").symlink_to(tmp_path / "secret.png")
    source = load_config(home / "audit.yaml").source
    names = {"a": "a.png", "b": "../secret.png", "c": "link.png", "d": None, "e": "/etc/passwd"}
    assert named_images(source, names) == {"a": b"\x89PNG"}  # type: ignore[arg-type]


def test_a_core_installation_audits_predictions(tmp_path: Path) -> None:
    """The whole pipeline through kfp, in processes in which importing torch fails."""
    home = tmp_path / "home"
    home.mkdir()
    write(home, n=120)
    for name in ABSENT:
        said = f"raise ModuleNotFoundError('no {name} here', name='{name}')\n"
        blocked = tmp_path / "blocked"
        blocked.mkdir(exist_ok=True)
        (blocked / f"{name}.py").write_text(said)
    text = CONFIG.replace('tracking: {uri: "off"}\n', "")
    (home / "audit.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "scotoma", "audit", "audit.yaml", "--out", "run", "--json"],
        cwd=home, env=os.environ | {"PYTHONPATH": str(tmp_path / "blocked")}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scope"] == "shipped"
    assert (
        "mlflow  not logged: tracking needs mlflow; pip install 'scotoma[tracking]'" in done.stderr
    )


def test_check_tells_the_groups_of_predictions_and_nothing_of_training(tmp_path: Path) -> None:
    write(tmp_path)
    code, out, err = scotoma("check", tmp_path / "audit.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("elsewhere: 300 test examples, 3 classes, 1 member a variant\n")
    assert "none: nothing is trained or run, predictions are audited" in out
    assert "training and" not in out
    code, _, err = scotoma("audit", tmp_path / "audit.yaml", "--dry-run")
    assert code == 2
    assert err.endswith("source.kind predictions trains nothing; run scotoma check\n")


def with_images(home: Path, images: dict[int, str]) -> None:
    """The examples, some of which name an image."""
    table = pl.read_csv(home / "examples.csv", infer_schema=False)
    names = [images.get(row, "") for row in range(table.height)]
    table.with_columns(pl.Series("image", names)).write_csv(home / "examples.csv")


@pytest.mark.parametrize("name", ["../key.png", "/etc/passwd", "sub/../../key.png", "s3://b/k.png"])
def test_an_image_outside_the_folder_of_its_table_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path)
    with_images(tmp_path, {7: name})
    (tmp_path / "audit.yaml").write_text(CONFIG)
    code, out, said = scotoma("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert (code, out) == (4, "")
    assert said.endswith(
        f"scotoma: image {name!r} in {tmp_path / 'examples.csv'} leads out of the folder of its "
        "table; name files inside it\n"
    )
    assert not (tmp_path / "run").exists()


def test_nothing_but_decoded_pixels_leaves(tmp_path: Path) -> None:
    """Neither other files that a table names as images, nor what cameras write into images."""
    secret, place = b"aws_secret_access_key = S3CR3T", b"Seat 12, S3CR3T street"
    write(tmp_path)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_bytes(secret)
    (tmp_path / "fake.png").write_bytes(b"\x89PNG\r\n\x1a\n" + secret)
    image = Image.new("RGB", (16, 16), (200, 40, 10))
    exif = Image.Exif()
    exif[0x010E] = place.decode()
    image.save(tmp_path / "a.jpg", exif=exif, comment=place, icc_profile=place)
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", place.decode())
    image.save(tmp_path / "b.png", pnginfo=text, icc_profile=place)
    image.save(tmp_path / "c.webp", exif=exif, icc_profile=place)
    image.save(tmp_path / "d.gif", comment=place)
    named = ["a.jpg", "b.png", "c.webp", "d.gif", ".aws/credentials", "fake.png"]
    with_images(tmp_path, {row: named[row % len(named)] for row in range(300)})
    (tmp_path / "audit.yaml").write_text(CONFIG)
    out = tmp_path / "run"
    assert scotoma("audit", tmp_path / "audit.yaml", "--out", out, "--quiet")[0] == 0
    kept = pl.read_parquet(out / "thumbnails.parquet")["image"].to_list()
    page = base64_images(out / "report.html")
    assert {Image.open(io.BytesIO(one)).format for one in kept} == {"JPEG", "PNG"}
    assert set(page) <= set(kept)
    assert page
    for one in kept:
        assert b"S3CR3T" not in one
        opened = Image.open(io.BytesIO(one))
        opened.load()
        assert not {"exif", "comment", "icc_profile", "Comment"} & opened.info.keys()
    for path in out.rglob("*"):
        assert path.is_dir() or b"S3CR3T" not in path.read_bytes(), path


def base64_images(page: Path) -> list[bytes]:
    found = re.findall(r"data:image/[a-z]+;base64,([\w+/=]+)", page.read_text(encoding="utf-8"))
    return [base64.b64decode(one) for one in found]
