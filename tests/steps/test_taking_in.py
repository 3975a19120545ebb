"""The audit of models made elsewhere: steps from images and ONNX files to the report."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from scotoma.config import load_config, parse_config
from scotoma.config.variants import Onnx
from scotoma.errors import ConfigError, DataError
from scotoma.predictions import Predictions
from scotoma.run import Run, read_json
from scotoma.run.shards import shards
from scotoma.steps import log as results
from scotoma.steps import report as reporting
from scotoma.steps import slices as slicing
from scotoma.steps import verdict as judging
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from scotoma.steps.gather import gather
from scotoma.steps.import_models import import_models
from scotoma.steps.predict import predict
from scotoma.steps.prepare import prepare
from tests.helpers.audits import accuracy

pytestmark = pytest.mark.slow

CONFIG = """\
project: elsewhere
source:
  kind: onnx
  models: models
  preprocessing: {scale: 255, mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}
  images: images
  attributes: attributes.csv
  split: {column: partition, train: train, test: test}
label: {column: blond, positive: 1}
groups:
  sex: {column: male, names: {"1": male, "0": female}}
variants: [dense, {onnx: [int8], paired: true, bits: 8}, {onnx: [distilled]}]
population: {models: 3, seed: 0}
keep_scores: true
tracking: {uri: "off"}
"""


def model(seed: int, noise: float) -> onnx.ModelProto:
    """Blond where an image is redder than a threshold, which every model has its own."""
    rng = np.random.default_rng(seed)
    weight = np.array([[0.0, 8.0], [0.0, 0.0], [0.0, 0.0]]) + noise * rng.normal(size=(3, 2))
    return linear(weight)


def linear(weight: np.ndarray) -> onnx.ModelProto:
    """Scores are weighted means of the channels; weights of shape (3, classes)."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
            helper.make_node("MatMul", ["mean", "weight"], ["scores"]),
        ],
        "red",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 6, 6))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", weight.shape[1]))],
        [
            numpy_helper.from_array(np.array([2, 3], np.int64), "axes"),
            numpy_helper.from_array(weight.astype(np.float32), "weight"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("elsewhere")
    rng = np.random.default_rng(0)
    rows = []
    (home / "images").mkdir()
    for index in range(120):
        blond, male = rng.random(2) < (0.4, 0.5)
        pixels = rng.integers(0, 256, (6, 6, 3)) // 2 + 64
        pixels[..., 0] += 12 * (2 * blond - 1) * (1 + male)
        Image.fromarray(pixels.astype(np.uint8)).save(home / "images" / f"{index}.png")
        part = "train" if index < 40 else "test"
        rows.append({"image": f"{index}.png", "partition": part, "blond": int(blond)})
        rows[-1]["male"] = int(male)
    pl.DataFrame(rows).write_csv(home / "attributes.csv")
    for variant, noise in {"dense": 0.5, "int8": 0.6, "distilled": 2.0}.items():
        (home / "models" / variant).mkdir(parents=True)
        for seed in range(3):
            onnx.save_model(model(seed, noise), home / "models" / variant / f"m{seed}.onnx")
    (home / "audit.yaml").write_text(CONFIG)
    return home


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    run = Run.create(home / "run", load_config(home / "audit.yaml"))
    prepare(run)
    for shard in shards(3, 2):
        import_models(run, shard)
        predict(run, shard)
    gather(run)
    divergence(run)
    bias(run)
    slicing.slices(run)
    judging.verdict(run)
    reporting.report(run)
    results.log(run)
    return run


def test_models_made_elsewhere_are_audited(run: Run, home: Path) -> None:
    audit = json.loads(run.path("audit.json").read_text())
    paired = {variant["name"]: variant["paired"] for variant in audit["variants"]}
    assert paired == {"dense": False, "int8": True, "distilled": False}
    made_of = {variant["name"]: variant["derived_from"] for variant in audit["variants"]}
    assert made_of == {"dense": None, "int8": "dense", "distilled": None}
    assert {row["variant"] for row in audit["rows"]["accuracy"]} == {"dense", "int8", "distilled"}
    assert accuracy(audit, "dense")["top1"]["n"] == 80
    measured = read_json(run.path("measurements.json"))
    assert set(measured["costs"]) == {"dense", "int8", "distilled"}
    page = run.path("report.html").read_bytes()
    assert reporting.draw(run).read_bytes() == page


def test_images_without_labels_are_audited(run: Run, home: Path, tmp_path: Path) -> None:
    """Every row is a test example where there is no split, and predictions are the same."""
    table = pl.read_csv(home / "attributes.csv").filter(pl.col("partition") == "test")
    table.drop("partition", "blond").write_csv(home / "field.csv")
    text = CONFIG.replace("attributes: attributes.csv", "attributes: field.csv\n  classes: [n, y]")
    text = re.sub("  split: .*\n", "", text.replace("{column: blond, positive: 1}", "none"))
    field = Run.create(tmp_path, load_config(_written(home / "field.yaml", text)))
    prepare(field)
    (shard,) = shards(3, 1)
    import_models(field, shard)
    predict(field, shard)
    gather(field)
    for variant in ("dense", "distilled"):
        both = [Predictions.read(one.predictions(variant)) for one in (run, field)]
        assert (both[0].predicted == both[1].predicted).all()
    assert both[1].classes == ("n", "y")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_predictions_are_those_of_the_models_on_prepared_pixels(run: Run, home: Path) -> None:
    found = Predictions.read(run.predictions("int8"))
    assert found.paired_with == "dense"
    assert found.scores is not None
    for column, seed in enumerate(range(3)):
        weight = numpy_helper.to_array(model(seed, 0.6).graph.initializer[1])
        for row, example_id in list(enumerate(found.example_ids))[:20]:
            with Image.open(home / "images" / example_id) as image:
                pixels = np.asarray(image, np.float64)
            ready = (pixels / 255 - 0.5) / 0.25
            scores = ready.mean(axis=(0, 1)) @ weight
            if abs(scores[0] - scores[1]) > 1e-3:
                assert found.predicted[row, column] == scores.argmax()
            likely = 1 / (1 + np.exp(-abs(scores[0] - scores[1])))
            assert found.scores[row, column] == pytest.approx(likely, abs=2e-3)


def test_the_manifest_says_what_was_taken_in(run: Run) -> None:
    manifest = read_json(run.population("int8") / "manifest.json")
    assert manifest["design"] == "paired with dense, member by member"
    first = manifest["members"][0]
    assert first["taken_from"] == "m0.onnx"
    assert first["export"]["opset"] == 20
    dense = read_json(run.population("dense") / "manifest.json")["members"][0]
    assert first["paired_with"] == {"variant": "dense", "sha256": dense["sha256"]}


def test_a_model_that_was_changed_is_taken_in_again(run: Run, home: Path) -> None:
    (shard, _) = shards(3, 2)
    place = run.member("dense", 0)
    before = place.stat().st_mtime_ns
    import_models(run, shard)
    assert place.stat().st_mtime_ns == before
    file = home / "models" / "dense" / "m0.onnx"
    held = file.read_bytes()
    onnx.save_model(model(9, 0.5), file)
    prepare(run)
    import_models(run, shard)
    assert place.stat().st_mtime_ns > before
    file.write_bytes(held)
    prepare(run)


def test_external_models_may_differ_in_number(home: Path, tmp_path: Path) -> None:
    """Three dense and one distilled, in shards of which the second holds no distilled one."""
    text = CONFIG.replace("{onnx: [distilled]}", "{onnx: [single], models: 1}")
    (home / "models" / "single").mkdir()
    onnx.save_model(model(5, 2.0), home / "models" / "single" / "only.onnx")
    (home / "single.yaml").write_text(text)
    run = Run.create(tmp_path / "run", load_config(home / "single.yaml"))
    prepare(run)
    for shard in shards(run.config.most_models, 2):
        import_models(run, shard)
        predict(run, shard)
    gather(run)
    members = {
        name: Predictions.read(run.predictions(name)).members
        for name in ("dense", "int8", "single")
    }
    assert members == {"dense": (0, 1, 2), "int8": (0, 1, 2), "single": (0,)}
    divergence(run)
    bias(run)
    slicing.slices(run)
    judging.verdict(run)
    audit = json.loads(run.path("audit.json").read_text())
    assert [variant["members"] for variant in audit["variants"]] == [3, 3, 1]


def test_numbers_and_names_of_models_must_fit(home: Path, tmp_path: Path) -> None:
    config = load_config(home / "audit.yaml")
    more = config.model_copy(update={"population": config.population.model_copy(
        update={"models": 4}
    )})  # fmt: skip
    run = Run.create(tmp_path / "run", more)
    with pytest.raises(DataError, match=r"dense must hold population.models = 4 models, got 3; "):
        prepare(run)

    fewer = more.model_copy(update={"population": config.population, "variants": [
        *config.variants[:2], Onnx(onnx=["distilled"], models=2)
    ]})  # fmt: skip
    run = Run.create(tmp_path / "fewer", fewer)
    with pytest.raises(DataError, match=r"distilled must hold models = 2 models, got 3; correct"):
        prepare(run)

    other = home / "models" / "int8" / "m2.onnx"
    other.rename(home / "models" / "int8" / "z.onnx")
    try:
        run = Run.create(tmp_path / "paired", config)
        with pytest.raises(DataError, match="paired with dense ones by their file names, got 'z"):
            prepare(run)
    finally:
        (home / "models" / "int8" / "z.onnx").rename(other)


def test_models_need_names_in_utf_8_and_are_files(home: Path) -> None:
    folder = home / "models" / "distilled"
    config = load_config(home / "audit.yaml")
    held = folder / "m0.onnx"
    for name, sentence in {
        b"m\xff.onnx": r"distilled/m .onnx must have a name in UTF-8, got other bytes; rename it",
        b"m.onnx": r"distilled/m.onnx must be the file of a model, got a folder; rename or remove",
    }.items():
        other = folder / os.fsdecode(name)
        held.rename(home / "held")
        if b"\xff" in name:
            (home / "held").rename(other)
        else:
            other.mkdir()
        try:
            with pytest.raises(DataError, match=sentence):
                config.source.models_found(config)
        finally:
            other.rename(held) if other.is_file() else (other.rmdir(), (home / "held").rename(held))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "{onnx: [distilled]}",
            "{prune: [0.9]}",
            "variants holds {prune: ...}, which needs networks that are trained here; name folders "
            "of source.models as {onnx: [...]}",
        ),
        ("distilled", "../secret", "variants.2.onnx.0 "),
        ("distilled", 70 * "字", "name of a variant must have at most 200 bytes in UTF-8, got 210"),
        ("scale: 255", "scale: 0", "source.preprocessing.scale must be greater than 0.0, got 0"),
        ("scale: 255", "scail: 255", "mean, std, channels, layout; did you mean 'scale'?"),
    ],
)
def test_a_wrong_configuration_is_refused(old: str, new: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(CONFIG.replace(old, new), "audit.yaml")
    assert sentence in str(caught.value)


def test_folders_of_models_need_a_source_of_models() -> None:
    with pytest.raises(ConfigError, match=r"which is for source\.kind onnx; list external models"):
        parse_config("variants: [dense, {onnx: [int8]}]", "audit.yaml")


def test_the_five_best_of_twelve_classes_go_from_the_models_through_shards_to_the_file(
    home: Path, tmp_path: Path
) -> None:
    weights = np.random.default_rng(5).normal(size=(2, 2, 3, 12)).astype(np.float32)
    for variant, own in zip(("dense", "int8"), weights, strict=True):
        (tmp_path / "models" / variant).mkdir(parents=True)
        for member, weight in enumerate(own):
            onnx.save_model(linear(weight), tmp_path / "models" / variant / f"m{member}.onnx")
    table = pl.read_csv(home / "attributes.csv").with_row_index("row")
    table.with_columns(pl.format("kind {}", pl.col("row") % 12).alias("kind")).write_csv(
        tmp_path / "kinds.csv"
    )
    text = CONFIG.replace("{column: blond, positive: 1}", "{column: kind}").replace(
        "attributes.csv", str(tmp_path / "kinds.csv")
    )
    text = text.replace("images: images", f"images: {home / 'images'}").replace(
        "[dense, {onnx: [int8], paired: true, bits: 8}, {onnx: [distilled]}]",
        "[dense, {onnx: [int8]}]",
    )
    config = parse_config(
        text.replace("models: models", f"models: {tmp_path / 'models'}").replace("3, s", "2, s"),
        "audit.yaml",
    )
    run = Run.create(tmp_path / "run", config)
    prepare(run)
    for shard in shards(2, 2):
        import_models(run, shard)
        predict(run, shard)
    gather(run)
    test = table.filter(pl.col("partition") == "test")["image"]
    pixels = np.stack([np.asarray(Image.open(home / "images" / name)) for name in test])
    means = ((pixels.astype(np.float32) / 255 - 0.5) / 0.25).mean(axis=(1, 2))
    for variant, own in zip(("dense", "int8"), weights, strict=True):
        gathered = Predictions.read(run.predictions(variant), top5=True)
        expected = [np.argsort(-(means @ weight), axis=1)[:, :5] for weight in own]
        assert gathered.top5 is not None
        assert (gathered.top5 == np.stack(expected, axis=1)).mean() > 0.999  # ties of rounding
        np.testing.assert_array_equal(gathered.predicted, gathered.top5[..., 0])
