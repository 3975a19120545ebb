"""The audit of predictions made elsewhere: from tables to the report, without torch."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image, PngImagePlugin
from scipy import stats

from scotoma.config import load_config, parse_config
from scotoma.config.sections import Population
from scotoma.datasets.thumbnails import named_images
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.predictions import Predictions
from scotoma.predictions.external import ExternalPredictions, PredictionRequest, read_external
from scotoma.predictions.tables import PredictionTable
from scotoma.run import Run, read_json
from scotoma.steps.prepare import prepare
from scotoma.steps.report import draw
from tests.helpers.audits import changes, rates
from tests.helpers.commands import scotoma, stdout_of
from tests.helpers.external_predictions import CONFIG, audited, said, write

pytestmark = pytest.mark.slow


# What a core installation lacks: importing any of it ends the process that tries.
@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The commonest audit: one dense and one compressed model."""
    return audited(write(tmp_path_factory.mktemp("pair")))


def test_every_prediction_finds_its_example_and_its_class(tmp_path: Path) -> None:
    run = audited(write(tmp_path, models=3))
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
        "name": "", "kind": "predictions", "sparsity": None, "mode": "", "bits": 0, "paired": False,
        "derived_from": None, "members": 1,
    }  # fmt: skip
    cie = changes(audit, "int8")["cie"]
    assert cie["excess"]["value"] is None
    assert cie["excess"]["reason"].startswith("excess not estimable (one model per side: the CIEs ")
    row = next(
        row for row in rates(audit, "int8")
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
    assert changes(audit, "int8")["cie"]["cie"]["count"] == sum(flipped)


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
    place = run.predictions("int8")
    before = place.stat().st_mtime_ns
    prepare(run)
    assert place.stat().st_mtime_ns == before
    file = tmp_path / "preds" / "int8" / "seed0.csv"
    file.write_text(file.read_text().replace(",cat", ",=dog()", 1))
    prepare(run)
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
    out = stdout_of("gate", run.root)
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
    found = {
        row["metric"]: (row["dense"]["value"], row["compressed"]["value"])
        for row in rates(audit, "int8") if row["group"] == "all"
    }  # fmt: skip
    # Of 30 values below 0.5 a shift of 0.02 lifts one (29/60) and 0.1 lifts six (24/60 upwards).
    assert found["fpr"] == (pytest.approx(1 / 30), pytest.approx(6 / 30))


def test_variants_of_unequal_size_are_cut_to_what_is_asked(tmp_path: Path) -> None:
    write(tmp_path, models=2)
    (tmp_path / "preds" / "int8" / "seed1.csv").unlink()
    run = audited(tmp_path, CONFIG + "population: {models: 1}\n")
    notes = read_json(run.path("audit.json"))["admission"]
    assert "of 2 models of 'fp32' the first 1 by name are audited" in [
        note["sentence"] for note in notes
    ]
    assert not any("'int8'" in note for note in notes)
    assert run.config.population == Population(models=1)


def test_both_sides_may_have_different_numbers_of_models(tmp_path: Path) -> None:
    write(tmp_path, models=3)
    (tmp_path / "preds" / "int8" / "seed2.csv").unlink()
    run = audited(tmp_path)
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
    row = next(r for r in rates(audit, "int8") if r["group"] == "all" and r["metric"] == "error")
    assert row["absolute"]["value"] == pytest.approx(errors[1] - errors[0])
    again = load_config(run.path("config.yaml")).completed()  # what the folder has, read back
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
    assert changes(audit, "int8")["flips"]["n"] == 300
    (tmp_path / "preds" / "int8" / "seed2.csv").rename(tmp_path / "preds" / "int8" / "other.csv")
    with pytest.raises(ConfigError, match="are paired with those of 'fp32' by their names, but"):
        load_config(tmp_path / "audit.yaml").completed()


@pytest.mark.parametrize("name", ["../../x", 70 * "字"])
def test_a_variant_whose_name_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path)
    long = pl.DataFrame(
        {"example_id": ["a"], "variant": [name], "model": ["0"], "predicted": ["cat"]}
    )
    long.write_csv(tmp_path / "preds" / "long.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG.replace("{variant}/{model}.csv", "long.csv"))
    with pytest.raises(DataError, match=f"variant '{name}' of source.files must have a name "):
        load_config(tmp_path / "audit.yaml").completed()


def test_images_that_the_table_names_are_shown_unless_they_lie_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home)
    (tmp_path / "secret.png").write_bytes(b"secret")
    (home / "a.png").write_bytes(b"\x89PNG")
    (home / "link.png").symlink_to(tmp_path / "secret.png")
    folder = load_config(home / "audit.yaml").source.folder_of_pictures
    names = {"a": "a.png", "b": "../secret.png", "c": "link.png", "d": None, "e": "/etc/passwd"}
    assert named_images(folder, names) == {"a": b"\x89PNG"}


def test_check_tells_the_groups_of_predictions_and_nothing_of_training(tmp_path: Path) -> None:
    write(tmp_path)
    code, out, err = scotoma("audit", "--plan", tmp_path / "audit.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("elsewhere: 300 test examples, 3 classes, 1 member a variant; 5.67% of")
    assert "none: nothing is trained or run, predictions are audited" in out
    assert "training and" not in out


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


# --- what does not fit in tables of predictions made elsewhere is refused in one sentence ---------


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
    "classes of another language": (
        "preds/int8/seed0.csv",
        lambda t: t.with_columns(pl.format("{}s", "predicted").alias("predicted")),
        "int8 in seed0.csv must answer with labels, but '=dog()s', 'bird, smalls', 'cats' are not "
        "among '=dog()', 'bird, small', 'cat'; write both with the same names, or name the classes",
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
}  # fmt: skip


@pytest.mark.parametrize(
    "five", ["not JSON", "[]", '["a"]', '["a","a","b","c","d"]', '["b","c","d","e","f"]', None]
)
def test_five_best_classes_must_be_five_of_the_label_and_hold_the_predicted_one(
    tmp_path: Path, five: str | None
) -> None:
    classes = tuple("abcdefghijkl")
    good = '["c","a","b","l","d"]'
    request = PredictionRequest({"dense": ["m"]}, ["x", "y"], classes)

    def read(best: list[str | None]) -> ExternalPredictions:
        rows = {"example_id": ["y", "x"], "predicted": ["a", "b"], "predicted_top5": best}
        pl.DataFrame(rows).write_csv(tmp_path / "p.csv")
        names = {"variant": "dense", "model": "m"}
        return read_external([PredictionTable(str(tmp_path / "p.csv"), names)], request)["dense"]

    top5 = read([good, good]).top5
    assert top5 is not None
    assert top5.tolist() == [[[2, 0, 1, 11, 3]]] * 2
    with pytest.raises(DataError) as caught:
        read([five, good])
    assert str(caught.value) == (
        f"predicted_top5 in {tmp_path / 'p.csv'} must list 5 different classes, the predicted one "
        f"among them, got {five} of example 'y'; correct it, or remove the column"
    )


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
