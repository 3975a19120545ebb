"""imSitu: verbs of images, and the gender that annotators name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from scotoma.config import Config, parse_config
from scotoma.errors import DataError
from scotoma.sources.reading import open_examples, survey_examples

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
