"""Commands that read tables, logs and detections: from S3 they print what they print from here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Storage
from tests.helpers.commands import scotoma
from tests.sources.test_sources_in_storage import (
    cache,
    detections,
    detections_of_yolo,
    external_models,
    predictions,
)

__all__ = ["cache"]
pytestmark = pytest.mark.slow


def tables(here: Path) -> None:
    """A wide table of answers, two logs of tables, groups beside them, and runs of techniques."""
    rng = np.random.default_rng(0)
    label = rng.choice(["cat", "dog"], 400)
    other = np.where(label == "cat", "dog", "cat")
    wide = pl.DataFrame(
        {
            "id": [f"x{row}" for row in range(400)],
            "label": label,
            "sex": rng.choice(["f", "m"], 400),
            "fp32": np.where(rng.random(400) < 0.9, label, other),
            "int8": np.where(rng.random(400) < 0.8, label, other),
        }
    )
    wide.write_csv(here / "wide.csv")
    wide.select("id", "sex").write_csv(here / "people.csv")
    for name in ("fp32", "int8"):
        (here / "logs" / name).mkdir(parents=True)
        log = wide.select("id", "label", pl.col(name).alias("predicted"))
        log.write_csv(here / "logs" / name / "part-0.csv")
    runs = [
        {"technique": technique, "run": run, "metric": "accuracy", "value": 0.9 + 0.01 * run}
        for technique in ("base", "other")
        for run in range(6)
    ]
    pl.DataFrame(runs).write_csv(here / "runs.csv")


CASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "bias": (
        tables,
        ("compare", "HERE/wide.csv", "--label", "label", "--predicted", "int8", "--group", "sex",
         "--positive", "cat"),
    ),
    "slices": (tables, ("slices", "HERE/wide.csv", "--outcome", "int8", "--label", "label")),
    "variance": (tables, ("compare", "HERE/runs.csv", "--techniques", "--base", "base")),
    "logs": (
        tables,
        ("compare", "HERE/logs/fp32", "HERE/logs/int8", "--examples", "HERE/people.csv", "--group",
         "sex"),
    ),
    "results": (
        detections,
        ("compare", "HERE/found/fp32.json", "HERE/found/int8.json", "--truth",
         "HERE/instances.json"),
    ),
    "yolo": (
        detections_of_yolo,
        ("compare", "HERE/found/fp32", "HERE/found/int8", "--truth", "HERE/data.yaml"),
    ),
    "draft of predictions": (
        predictions,
        ("init", "HERE/examples.csv", "--predictions", "HERE/preds/{variant}/{model}.csv"),
    ),
    "draft of models": (
        external_models,
        ("init", "HERE/table.csv", "--label", "face", "--images", "HERE/pictures", "--models",
         "HERE/models"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_command_prints_of_s3_what_it_prints_of_the_folder(
    name: str, tmp_path: Path, s3: Storage
) -> None:
    make, words = CASES[name]
    here = tmp_path / "sets"
    here.mkdir()
    make(here)
    for path in here.rglob("*"):
        if path.is_file():
            s3.put(f"sets/{path.relative_to(here).as_posix()}", path.read_bytes())
    printed = []
    for place in (str(here), s3.uri("sets")):
        code, out, err = scotoma(*(one.replace("HERE", place) for one in words), "--json")
        assert code == 0, err
        printed.append(json.loads(out.replace(place, "HERE")))
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--label", "a", "--predicted", "b", "--group", "c"),
        ("compare", "--techniques"),
        ("compare", "HERE/x"),
        ("init",),
    ],
)
def test_what_is_not_there_is_named(words: tuple[str, ...], s3: Storage) -> None:
    command, *others = words
    code, _, err = scotoma(
        command, s3.uri("none.csv"), *(one.replace("HERE", s3.uri()) for one in others)
    )
    assert code == 4
    assert err.splitlines()[-1] == (
        f"scotoma: {s3.uri('none.csv')} cannot be read: no such object; correct the address or put "
        "it there"
    )
