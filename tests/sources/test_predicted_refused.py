"""What does not fit in tables of predictions made elsewhere is refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from scotoma.config import parse_config
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.predictions.external import ExternalPredictions, PredictionRequest, read_external
from scotoma.predictions.tables import PredictionTable
from tests.helpers.external_predictions import CONFIG, audited, write

pytestmark = pytest.mark.slow

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
