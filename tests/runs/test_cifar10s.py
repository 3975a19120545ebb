"""The CIFAR-10S tournament of examples/, in miniature: its text, tiny data, few steps."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.config import load_config, parse_config
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "cifar10s-tournament.yaml"
SMALLER = {
    "model: cifar-resnet18": "model: resnet8",
    "epochs: 200": "steps: 8",
    "batch_size: 128": "batch_size: 40",
    "prune: [0.5, 0.7, 0.9, 0.95]": "prune: [0.5]",
    "int8: [dynamic, static]": "int8: [static]",
    "models: 16": "models: 8",
    "techniques: [RS, SUBG, group-dro, DD1, DD2, DD3, DD4, DI1, DI2, dfr, dfr-dense]":
        "techniques: [DD1, DD2, dfr]",
}  # fmt: skip


def miniature(folder: Path) -> str:
    """Write ten classes of 40 and 6 pictures, each with a colour of its own, and the example."""
    rng = np.random.default_rng(0)
    for split, n in {"train": 40, "test": 6}.items():
        labels = np.repeat(np.arange(10), n)
        shade = np.stack([25 * labels, 250 - 25 * labels, 120 + 0 * labels], axis=1)
        pixels = shade[:, None, None] + rng.normal(0, 20, (len(labels), 32, 32, 3))
        rows = []
        for image in pixels.clip(0, 255).astype(np.uint8):
            Image.fromarray(image).save(buffer := io.BytesIO(), "PNG")
            rows.append({"bytes": buffer.getvalue(), "path": None})
        pl.DataFrame({"image": rows, "label": labels}).write_parquet(folder / f"{split}.parquet")
    text = EXAMPLE.read_text().replace("data: cifar10\n", f"data: {folder}\n")
    for before, after in SMALLER.items():
        assert before in text, before
        text = text.replace(before, after)
    return text + 'tracking: {uri: "off"}\n'


def test_the_example_asks_for_the_studys_task(tmp_path: Path) -> None:
    config = load_config(EXAMPLE)
    contest = config.tournament
    assert contest is not None
    assert (config.population.models, config.population.forked, contest.identical) == (
        16, True, True,
    )  # fmt: skip
    assert {"DD1", "DD2", "DD3", "DD4", "DI1", "DI2", "RS"} <= set(contest.mitigations())
    small = parse_config(miniature(tmp_path), "small.yaml")
    assert list(small.contestants()) == ["base", "DD1", "DD2"]


@pytest.mark.thorough
def test_it_runs_in_miniature_with_shared_trainings_refits_and_one_seed(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(miniature(tmp_path))
    with steps_in_this_process(tmp_path):
        code, out, err = scotoma("compare", "small.yaml", "--techniques", "--out", "runs", "--json")
    assert code == 0, err
    assert [line.split()[1] for line in err.splitlines()] == 2 * [
        "base,", "DD1,", "DD2,", "dfr,",
    ]  # fmt: skip
    rows = json.loads(out)["rows"]
    assert {one["variant"] for one in rows if one["question"] == "survival"} == {
        "prune-0.5", "prune-0.5+int8-static", "int8-static", "int8-static-group-balanced",
    }  # fmt: skip
    members = [
        tmp_path / "runs" / name / "populations" / "prune-0.5" / "member-007.safetensors"
        for name in ("DD1", "DD2")
    ]
    assert members[0].samefile(members[1])  # one training, two decisions
    spreads = [
        one for one in rows if (one["question"], one["what"]) == ("one seed", "SD of one seed")
    ]
    assert {one["group"] for one in spreads} == {"base", "DD1", "DD2", "dfr"}
    # On a CPU runs of one seed are the same to the bit.
    assert all(one["value"] == 0 for one in spreads)
