"""Images of several labels, from the files to what trained, pruned and int8 models predict."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image
from typer.testing import CliRunner

from scotoma.audit import GateResult
from scotoma.cli import application
from scotoma.config import Config, load_config
from scotoma.datasets import AuditedExamples, store_images
from scotoma.errors import ConfigError, DataError
from scotoma.fix.outputs import member_outputs
from scotoma.fix.refusals import repairable
from scotoma.fix.repair import repair_variant
from scotoma.predictions import Predictions, read_heads, read_scores
from scotoma.run import Run
from scotoma.run.shards import shards
from scotoma.sources.reading import load_examples, open_examples, survey_examples
from scotoma.steps.gather import gather
from scotoma.steps.import_models import import_models
from scotoma.steps.predict import predict
from scotoma.steps.prepare import prepare
from scotoma.steps.quantize import quantize
from scotoma.steps.train import prune, train
from tests.helpers.audits import filled
from tests.helpers.photographs import (
    COCO,
    COMMON,
    EXAMPLE,
    LABELS,
    TABLE,
    configured,
    spoiled_table,
    without_first_row,
)

pytestmark = pytest.mark.slow


app = application(whole=True)
CUT = np.array([0.5, 0.3, 0.5, 0.5])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("photographs")
    EXAMPLE["write"](home, train=90, test=60)
    return home


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A few photographs that a test may spoil."""
    EXAMPLE["write"](tmp_path, train=30, test=10)
    return tmp_path


@pytest.fixture(scope="module")
def prepared(home: Path) -> Run:
    run = Run.create(home / "prepared", configured(home, TABLE))
    prepare(run)
    return run


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    run = Run.create(home / "run", configured(home, TABLE))
    steps(run)
    return run


def steps(run: Run) -> None:
    (shard,) = shards(run.config.most_models, 1)
    prepare(run)
    for step in (train, prune, quantize, predict):
        step(run, shard)
    gather(run)


def pixels(home: Path, name: str) -> np.ndarray:
    return np.asarray(Image.open(home / "photographs" / name).convert("RGB")).transpose(2, 0, 1)


@pytest.mark.thorough
def test_every_member_says_of_every_label_what_its_network_says(home: Path, run: Run) -> None:
    import onnxruntime
    import torch
    from safetensors.torch import load_file

    from scotoma.training.models import build_model

    table = pl.read_csv(home / "photographs" / "labels.csv").filter(split="test")
    shown = np.stack([pixels(home, name) for name in table["image"]]).astype(np.float32)
    ready = shown / 127.5 - 1
    exact = onnxruntime.SessionOptions()  # without VNNI sums of int8 products are cut otherwise
    exact.add_session_config_entry("session.x64quantprecision", "1")
    for variant in ("dense", "prune-0.9", "int8-static"):
        kept = Predictions.read(run.predictions(variant))
        assert kept.example_ids[:2] == ("test/00000.png#bicycle", "test/00000.png#dog")
        for member in range(2):
            path = run.member(variant, member)
            if path.suffix == ".onnx":
                session = onnxruntime.InferenceSession(path, exact)
                (scores,) = session.run(None, {"images": ready})
            else:
                network = build_model("tiny-convnet", len(LABELS), 0).eval()
                network.load_state_dict(load_file(path))
                with torch.inference_mode():
                    scores = network(torch.from_numpy(ready)).numpy()
            chance = 1 / (1 + np.exp(-scores.astype(np.float64)))
            sure = abs(chance - CUT) > 1e-4
            said = kept.predicted[:, member].reshape(-1, len(LABELS))
            assert sure.mean() > 0.9
            assert (said == (chance >= CUT))[sure].all()
            assert kept.scores is not None
            own = kept.scores[:, member].reshape(-1, len(LABELS))
            assert own == pytest.approx(np.where(said == 1, chance, 1 - chance), abs=2e-3)


@pytest.mark.thorough
def test_rules_are_fitted_to_what_members_say_of_each_label(run: Run) -> None:
    for variant in ("dense", "int8-static"):
        outputs = member_outputs(run, variant, features=False)
        assert outputs.shape == (2, 60 * len(LABELS), 2)
        said = Predictions.read(run.predictions(variant)).predicted
        assert (said == outputs.argmax(-1).T).mean() > 0.99
    with pytest.raises(DataError, match=r"^dfr fits one layer to one label, and this audit has"):
        member_outputs(run, "dense", features=True)


def test_external_models_say_of_every_label_what_they_said_here(home: Path, run: Run) -> None:
    text = """\
source:
  kind: onnx
  models: models
  images: photographs
  attributes: photographs/labels.csv
  split: {column: split, train: train, test: test}
  preprocessing: {mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
""" + COMMON.replace("GENDER", "sex").replace("{prune: [0.9]}, {int8: [static]}", "{onnx: [small]}")
    for name in ("dense", "small"):
        (home / "models" / name).mkdir(parents=True)
        for k in (0, 1):
            shutil.copy(run.member("int8-static", k), home / "models" / name / f"{k}.onnx")
    own = Run.create(home / "external", configured(home, text))
    (shard,) = shards(own.config.most_models, 1)
    prepare(own)
    import_models(own, shard)
    predict(own, shard)
    gather(own)
    said = Predictions.read(own.predictions("small"))
    assert (said.predicted == Predictions.read(run.predictions("int8-static")).predicted).all()
    for one, variant in ((own, "small"), (run, "int8-static")):
        path = one.scores(variant, 1)
        ids, scores = read_scores(path)
        assert (read_heads(path).classes, ids[:2]) == (
            tuple(LABELS),
            ["test/00000.png", "test/00001.png"],
        )
        chance = 1 / (1 + np.exp(-scores.astype(np.float64)))
        assert ((chance >= CUT) == said.predicted[:, 1].reshape(chance.shape)).all()
    assert member_outputs(own, "small", features=False).shape == (2, 60 * len(LABELS), 2)


def test_layers_are_chosen_by_the_errors_of_every_label(run: Run, tmp_path: Path) -> None:
    """Members that are quantized again say of each label what the audit's said."""
    from scotoma.fix.layers import layers_file, write_layers

    variant = repairable(run, "int8-static")
    repaired = repair_variant(run, variant, 0.1, tmp_path / "models")
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    assert repaired.clusters == (30, 30)
    halves = examples.keep(repaired.judged).table["example_id"].str.split("#").list.first()
    assert halves.value_counts()["count"].unique().to_list() == [len(LABELS)]
    said = Predictions.read(run.predictions("int8-static")).predicted
    assert repaired.predicted.shape == (30 * len(LABELS), 2)
    if not repaired.members:
        assert (repaired.predicted == said[repaired.judged]).all()
    judged = [{"name": "int8-static", "verdict": "FAIL", "sentences": [], "tests": []}]
    write_layers(run, GateResult.model_validate(filled(GateResult, {"variants": judged})))
    shown = json.loads(layers_file(run).read_text())["variants"]["int8-static"]["layers"]
    assert {row["layer"] for row in shown} == {"conv 0", "conv 3", "linear 8"}
    assert {row["alone"]["n"] for row in shown} == {60}  # photographs, not labels


def test_a_network_of_several_labels_answers_for_each(
    home: Path, prepared: Run, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file

    from scotoma.config import Recipe
    from scotoma.inference import Network
    from scotoma.inference.population import _Work
    from scotoma.steps.predict import _Column
    from scotoma.training.engine import Member, Training
    from scotoma.training.models import build_model
    from scotoma.training.task import plain_task

    torch.set_num_threads(1)
    taught = AuditedExamples.read(prepared.examples, split="train")
    names = taught.image_ids[:40]
    shown = np.stack([pixels(home, name) for name in names])
    labels = taught.shown_labels[:40]
    recipe = Recipe(epochs=None, steps=4, batch_size=16, precision="float32")
    training = Training(
        [Member("dense", k, 7 + k) for k in range(2)], shown, labels, model="tiny-convnet",
        task=plain_task(labels, 2, recipe), recipe=recipe,
    )  # fmt: skip
    network = Network("tiny-convnet", len(LABELS), thresholds=tuple(CUT))
    column = _Column.empty((40, 2), network, scores=True)
    files = []
    for one in training.run():
        files.append(tmp_path / f"{one.member.index}.safetensors")
        save_file({name: value.contiguous() for name, value in one.state.items()}, files[-1])
    work = _Work(tuple(files), shown, network, True)
    for member in range(2):
        for rows in (slice(0, 16), slice(16, 40)):
            column.take(work(member, rows), member)
    assert column.missing == 0
    for one in training.run():
        own = build_model("tiny-convnet", len(LABELS), 0).eval()
        own.load_state_dict(one.state)
        with torch.inference_mode():
            chance = own(torch.from_numpy(shown).float() / 127.5 - 1).sigmoid().numpy()
        said = column.predicted[:, one.member.index].reshape(40, 4)
        assert (said == (chance >= CUT))[abs(chance - CUT) > 1e-4].all()
        assert column.row_scores is not None
        kept = column.row_scores[:, one.member.index].reshape(40, 4)
        assert kept == pytest.approx(np.where(said == 1, chance, 1 - chance), abs=2e-3)


def test_the_loss_weighs_labels_by_how_rare_they_are() -> None:
    import torch

    from scotoma.config import Recipe
    from scotoma.training.task import recognition

    rng = np.random.default_rng(0)
    labels = (rng.random((50, 3)) < [0.1, 0.5, 0.3]).astype(np.int64)
    task = recognition(labels, Recipe(label_smoothing=0.2))
    scores = rng.normal(size=(50, 3))
    rare = (50 - labels.sum(0)) / labels.sum(0)
    aims, chance = labels * 0.8 + 0.1, 1 / (1 + np.exp(-scores))
    each = -(aims * np.log(chance) + (1 - aims) * np.log(1 - chance))
    tensors = torch.from_numpy(scores), torch.from_numpy(labels), torch.zeros(50, 0)
    assert task.objective(*tensors).item() == pytest.approx((each * rare / rare.mean()).mean())


@pytest.mark.parametrize(("technique", "ratio"), [("R1", 1), ("R2", 2), ("R3", 3)])
def test_subsets_bound_each_label_s_ratio_of_the_groups(
    prepared: Run, technique: str, ratio: int
) -> None:
    from scotoma.mitigation.groups import training_groups
    from scotoma.training.technique import technique_task

    asked = {"technique": technique, "attribute": "gender"}
    config = Config.model_validate(
        prepared.config.model_dump(mode="json", exclude_none=True) | {"mitigation": asked}
    )
    taught = AuditedExamples.read(prepared.examples, images=False, split="train")
    groups = training_groups(config, taught)
    assert config.mitigation is not None
    assert groups.counts.sum(0).tolist() == taught.shown_labels.sum(0).tolist()
    task = technique_task(config.mitigation, config.source.recipe, taught.shown_labels, groups, 2)
    assert task.pool is not None
    rows = task.pool(0)
    assert 0 < len(rows) <= (90 if ratio > 1 else 80)
    for label in taught.shown_labels[rows].T:
        counts = np.bincount(groups.codes[rows][label == 1], minlength=2)
        assert counts.max() <= ratio * counts.min()


@pytest.mark.thorough
def test_steps_that_are_done_are_skipped_and_lost_predictions_come_back(run: Run) -> None:
    (shard,) = shards(2, 1)
    files = [run.member(name, k) for name in ("dense", "int8-static") for k in range(2)]
    before = [path.stat().st_mtime_ns for path in files]
    content = run.predictions("dense").read_bytes()
    run.predictions("dense").unlink()
    run.predictions("dense", shard.index).unlink()
    steps(run)
    assert [path.stat().st_mtime_ns for path in files] == before
    assert run.predictions("dense").read_bytes() == content


def test_an_image_is_on_its_first_row_and_read_for_every_label(home: Path, prepared: Run) -> None:
    examples = AuditedExamples.read(prepared.examples, split="test")
    assert examples.several == tuple(LABELS)
    assert examples.table["image"].null_count() == 3 * 60
    assert examples.image_ids[:2] == ["test/00000.png", "test/00001.png"]
    table = pl.read_csv(home / "photographs" / "labels.csv").filter(split="test")
    assert (examples.shown_labels == table[LABELS].to_numpy()).all()
    asked = ["test/00007.png#umbrella", "test/00003.png#bicycle", "test/00007.png#dog"]
    read = AuditedExamples.read(prepared.examples, only=asked).table
    assert read["example_id"].to_list() == asked
    for name, image in zip(asked, read["image"], strict=True):
        decoded = np.asarray(Image.open(io.BytesIO(image["bytes"]))).transpose(2, 0, 1)
        assert (decoded == pixels(home, name.partition("#")[0])).all()


def test_training_images_are_stored_once_each(home: Path, prepared: Run, tmp_path: Path) -> None:
    from scotoma.datasets.image_store import StoredImages, _parts, _write_encoded

    decoded = store_images(prepared.examples, "train", tmp_path).open()
    path = tmp_path / "images.encoded"
    ends = _write_encoded(path, _parts(prepared.examples, "train", len(LABELS)), 10**9)
    for images in (decoded, StoredImages(path, (len(ends), 3, 16, 16), ends)):
        assert images.shape == (90, 3, 16, 16)
        assert (images[np.array([4, 89])][1] == pixels(home, "train/00089.png")).all()


def test_statistics_of_an_image_stand_at_each_of_its_labels(prepared: Run) -> None:
    from scotoma.datasets.image_statistics import image_statistics

    table = image_statistics(AuditedExamples.read(prepared.examples, split="test"))
    light = table["image brightness"].to_numpy().reshape(-1, len(LABELS))
    assert table.height == 240
    assert (light == light[:, :1]).all()
    assert len(np.unique(light[:, 0])) > 50


def test_coco_and_a_table_are_the_same_examples(home: Path) -> None:
    tables = []
    for text in (TABLE, COCO):
        config = configured(home, text)
        whole = load_examples(config)
        _, parts = open_examples(config)
        read = pl.concat(parts)
        assert read.equals(whole.table.select(read.columns))
        tables.append(whole.table)
    assert tables[0].equals(tables[1])


def test_images_that_name_both_or_no_gender_can_be_left_out(copied: Path) -> None:
    captions = copied / "photographs" / "annotations" / "captions_train.json"
    content = json.loads(captions.read_text())
    content["annotations"][0]["caption"] = "A woman and a man."
    del content["annotations"][1]
    captions.write_text(json.dumps(content))
    survey = survey_examples(
        configured(copied, COCO.replace("  size", "  one_gender: true\n  size"))
    )
    assert len(survey.examples.split("train").image_ids) == 28
    assert survey.examples.notes[0] == (
        "2 of 40 images name no gender, or women and men, and are left out"
    )
    everyone = survey_examples(configured(copied, COCO))
    assert len(everyone.examples.split("train").image_ids) == 30
    assert "(missing)" in everyone.examples.table["gender"].to_list()


def test_attributes_join_coco_by_the_id_of_the_image(copied: Path) -> None:
    ids = [1, 3, *range(1_000_001, 1_000_011)]
    light = ["dark" if k % 2 else "bright" for k in ids]
    pl.DataFrame({"image_id": ids, "light": light}).write_csv(copied / "light.csv")
    text = COCO.replace("  size", "  attributes: light.csv\n  size")
    text = text.replace("groups: {", "groups: {light: {column: light}, ")
    examples = survey_examples(configured(copied, text)).examples
    assert examples.table.filter(split="train")["light"].value_counts().sort("light").rows() == [
        ("(missing)", 28 * 4), ("dark", 2 * 4),
    ]  # fmt: skip


def test_images_without_row_are_counted(copied: Path) -> None:
    without_first_row(copied)
    (note, *_) = survey_examples(configured(copied, TABLE)).examples.notes
    assert note == (
        "1 of 40 images of the folder has no row in the table (the first is 'train/00000.png'); "
        "it is not audited"
    )


def test_check_counts_images_and_labels(copied: Path) -> None:
    configured(copied, TABLE)
    asked = ["audit", "--plan", str(copied / "audit.yaml"), "--quiet", "--no-trial"]
    shown = CliRunner().invoke(app, asked).output
    assert "30 training and 10 test examples, 4 labels each, 2 members a variant" in shown
    assert "16x16 pixels" in shown
    facts = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert facts["images"]["decoded_bytes"] == 40 * 3 * 16 * 16


def test_a_draft_of_several_labels_can_be_checked(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copied)
    labels = [part for name in ("bicycle,dog", "h*", "umbrella") for part in ("--label", name)]
    asked = ["init", "photographs/labels.csv", "--images", "photographs", *labels, "--quiet"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    config = load_config(copied / "audit.yaml")
    assert config.label.columns == LABELS
    assert survey_examples(config).examples.attributes == ("label_name", "sex")
    refused = CliRunner().invoke(
        app, ["init", "photographs/labels.csv", *labels, "--out", "b.yaml"]
    )
    assert isinstance(refused.exception, ConfigError)
    assert str(refused.exception).startswith("--label names 4 labels")


# --- images of several labels that cannot be audited: one sentence for each fault -----------------


def spoiled_coco(home: Path, key: str, value: Any) -> None:
    place = home / "photographs" / "annotations" / "instances_test.json"
    content = json.loads(place.read_text())
    place.write_text(json.dumps(content | {key: value}))


REFUSED: dict[str, tuple[str, Any, str]] = {
    "a column is missing": (
        TABLE,
        lambda home: spoiled_table(home, "dog"),
        "label column 'dog' is not in {home}/photographs/labels.csv; it has bicycle, handbag, sex,",
    ),
    "a value is 2": (
        TABLE,
        lambda home: spoiled_table(home, pl.col("dog") * 2),
        "label column 'dog' of {home}/photographs/labels.csv must hold 0 or 1, got '2' in the row",
    ),
    "a label is 0 for all": (
        TABLE,
        lambda home: spoiled_table(home, pl.col("dog") * 0),
        "label column 'dog' of {home}/photographs/labels.csv must be 1 for some training examples "
        "and 0 for others, got 0 for all 30; leave it out of label.columns, or add examples",
    ),
    "a label is 1 for all": (
        TABLE,
        lambda home: spoiled_table(home, pl.col("dog") * 0 + 1),
        "label column 'dog' of {home}/photographs/labels.csv must be 1 for some training examples "
        "and 0 for others, got 1 for all 30; leave it out of label.columns, or add examples",
    ),
    "a row has no image": (
        TABLE,
        lambda home: (home / "photographs/train/00003.png").unlink(),
        "1 of 40 rows of {home}/photographs/labels.csv has no image in {home}/photographs: "
        "'train/00003.png'; add it or remove its row",
    ),
    "an annotated image is not there": (
        COCO,
        lambda home: (home / "photographs/test/00003.png").unlink(),
        "1 of 40 rows of {home}/photographs/annotations has no image in {home}/photographs: "
        "'test/00003.png'; add it or remove its row",
    ),
    "COCO has no such label": (
        COCO.replace("dog,", "dgo,").replace("dog:", "dgo:"),
        lambda home: None,
        "label column 'dgo' is not in {home}/photographs/annotations; it has bicycle, dog, gender, "
        "handbag, image_id, umbrella; did you mean 'dog'?",
    ),
    "splits have other categories": (
        COCO,
        lambda home: spoiled_coco(
            home, "categories", [{"id": k, "name": f"thing {k}"} for k in range(1, 5)]
        ),
        "both splits of {home}/photographs/annotations must have the same categories and captions, "
        "got a category 'bicycle' in train and none in test; export both alike",
    ),
    "there is no such split": (
        COCO.replace("test: test", "test: val2017"),
        lambda home: None,
        "source.data {home}/photographs must hold annotations/instances_val2017.json, and does "
        "not; put the annotations there, or name other splits in source.train and source.test",
    ),
    "an image is broken": (
        TABLE,
        lambda home: (home / "photographs/train/00003.png").write_bytes(b"no image"),
        "image of example 'train/00003.png#bicycle' (train/00003.png) cannot be decoded",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_faulty_images_and_labels_are_refused_in_a_sentence(fault: str, copied: Path) -> None:
    text, spoil, sentence = REFUSED[fault]
    spoil(copied)
    run = Run.create(copied / "run", configured(copied, text))
    with pytest.raises(DataError) as refused:
        prepare(run)
    assert str(refused.value).startswith(sentence.format(home=copied))
    assert "\n" not in str(refused.value)
