"""Images of several labels that cannot be audited: one sentence for each fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.errors import DataError
from scotoma.run import Run
from scotoma.steps.prepare import prepare
from tests.helpers.photographs import (
    COCO,
    EXAMPLE,
    TABLE,
    configured,
    spoiled_table,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A few photographs that a test may spoil."""
    EXAMPLE["write"](tmp_path, train=30, test=10)
    return tmp_path


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
