"""Every component on a machine of its own: nothing but object storage between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scotoma.config import parse_config
from scotoma.run import Run
from scotoma.run.shards import shards
from scotoma.steps.runner import execute
from scotoma.storage import list_files, read_bytes

pytestmark = pytest.mark.slow

CONFIG = """\
project: machines
source: {kind: digits-s, recipe: {steps: 4, batch_size: 8, prune_every: 0.25}}
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {int8: [dynamic]}]
population: {models: 2}
tracking: {uri: "off"}
deterministic: true
"""


def test_two_shards_on_fifteen_machines_give_one_audit(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, count = s3.uri("run"), 0
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "first"))
    Run.create(place, parse_config(CONFIG, "machines.yaml"))

    def task(step: str, *after: Path, shard: str = "") -> Path:
        nonlocal count
        count += 1
        monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / f"{count}"))
        pointer = tmp_path / f"{count}.json"
        execute(step, place, str(pointer), after=list(map(str, after)), shard=shard)
        return pointer

    examples, parts = task("prepare"), []
    for shard in map(str, shards(2, 2)):
        dense = task("train", examples, shard=shard)
        pruned = task("prune", examples, dense, shard=shard)
        quantized = task("quantize", examples, dense, pruned, shard=shard)
        parts.append(task("predict", examples, dense, pruned, quantized, shard=shard))
    gathered = task("gather", *parts)
    found_by = [task(step, gathered) for step in ("divergence", "bias", "slices")]
    task("log", task("report", task("verdict", *found_by)))
    assert count == 16
    found = list_files(place)
    assert {"audit.json", "gate.json", "report.html"} <= set(found)
    assert {"tracking.json", "measurements.json"} <= set(found)
    assert len([name for name in found if "member-" in name]) == 2 * 2 * 2
    assert not [name for name in found if "partial" in name]
    assert {"logs/train.0.1.log", "logs/train.1.1.log", "logs/log.0.1.log"} <= set(found)
    first = {name: read_bytes(f"{place}/{name}") for name in found if name != "measurements.json"}
    task("predict", examples, dense, pruned, quantized, shard=shard)  # a task that KFP repeats
    assert {name: read_bytes(f"{place}/{name}") for name in first} == first
