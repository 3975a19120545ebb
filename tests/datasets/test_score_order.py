"""The class that each score of an external model stands for."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from scotoma.errors import DataError
from scotoma.sources.onnx import OnnxSource


def order(
    labels: list[str],
    home: Path,
    id2label: list[str] | None = None,
    classes: list[str] | None = None,
    names: list[str] | None = None,
) -> tuple[list[str], str]:
    """The order, and the note on it."""
    folder = home / "models" / "dense"
    folder.mkdir(parents=True)
    if id2label:
        named = {"id2label": {str(place): name for place, name in enumerate(id2label)}}
        (folder / "config.json").write_text(json.dumps(named))
    source = OnnxSource(
        kind="onnx", models=str(home / "models"), images="x", attributes="x", classes=classes or []
    )
    ids = names or [f"{place}.png" for place in range(len(labels))]
    table = pl.DataFrame({"example_id": ids, "label": labels})
    found, note = source.class_order(table, "table.csv")
    return list(found), note.sentence


@pytest.mark.parametrize(
    ("labels", "id2label", "classes", "expected", "told"),
    [
        (["cat", "dog"], None, None, ["cat", "dog"], "(the labels as text, as ImageFolder sorts"),
        (["c10", "c9", "B"], None, None, ["B", "c10", "c9"], "as ImageFolder sorts them)"),
        (["10", "9", "0"], None, None, ["0", "9", "10"], "(the labels by value)"),
        (["cat", "dog"], ["dog", "cat"], None, ["dog", "cat"], "(id2label in config.json beside"),
        (["cat"], ["bird", "Cat"], None, ["bird", "cat"], "(id2label in config.json"),
        (["0", "1"], ["dog", "cat", "b"], None, ["0", "1", "2"], "(id2label in config.json"),
        (["cat", "dog"], ["LABEL_0", "LABEL_1"], None, ["cat", "dog"],
         "ImageFolder sorts them; id2label in config.json names none of them)"),
        (["cat", "dog"], None, ["dog", "x", "cat"], ["dog", "x", "cat"], "(source.classes)"),
        (["cat", "dog"], ["dog", "cat"], ["cat", "dog"], ["cat", "dog"],
         "(source.classes; id2label in config.json says dog, cat)"),
        (["cat", "dog"], ["dog", "cat"], ["dog", "cat"], ["dog", "cat"], "(source.classes)"),
    ],
)  # fmt: skip
def test_the_order_of_scores(
    labels: list[str],
    id2label: list[str] | None,
    classes: list[str] | None,
    expected: list[str],
    told: str,
    tmp_path: Path,
) -> None:
    found, sentence = order(labels, tmp_path, id2label, classes)
    assert found == expected
    assert sentence.startswith("the models' scores are read in the order ")
    assert sentence.endswith(told) or told in sentence


def test_numbers_that_name_folders_are_sorted_as_text(tmp_path: Path) -> None:
    labels = ["0", "2", "10"]
    names = [f"test/{label}/a.png" for label in labels]
    assert order(labels, tmp_path, names=names)[0] == sorted(labels)


@pytest.mark.parametrize(
    ("labels", "id2label", "classes", "sentence"),
    [
        (["cat", "dgo"], None, ["cat", "dog"],
         "label 'dgo' of table.csv must be in source.classes, which lists cat, dog; did you mean"),
        (["cat", "emu"], ["dog", "cat"], None,
         "label 'emu' of table.csv must be one class of id2label in config.json, which lists dog, "
         "cat; correct it, or list all classes in source.classes"),
        (["crane", "dog"], ["crane", "dog", "crane"], None,
         "label 'crane' of table.csv must be one"),
    ],
)  # fmt: skip
def test_a_label_that_no_score_stands_for_is_refused(
    labels: list[str],
    id2label: list[str] | None,
    classes: list[str] | None,
    sentence: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError) as refused:
        order(labels, tmp_path, id2label, classes)
    assert str(refused.value).startswith(sentence)
