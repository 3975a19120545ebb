"""How long the report of a CelebA-sized audit takes to draw, and what its bytes are made of.

    python benchmarks/report.py [--members K] [--keep FILE]

20,000 test examples, 9 variants, 240 thumbnails. The predictions are made up, all else is what an
audit does. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scotoma.audit import read_audit  # noqa: E402  after the path
from scotoma.config import Config  # noqa: E402
from scotoma.datasets import AuditedExamples  # noqa: E402
from scotoma.predictions import Predictions  # noqa: E402
from scotoma.processes.machine import hardware  # noqa: E402
from scotoma.run import Run  # noqa: E402
from scotoma.steps.bias import bias  # noqa: E402
from scotoma.steps.divergence import divergence  # noqa: E402
from scotoma.steps.report import draw, report  # noqa: E402
from scotoma.steps.slices import slices  # noqa: E402
from scotoma.steps.verdict import verdict  # noqa: E402
from tests.helpers.networks import write_network_predictions  # noqa: E402

EXAMPLES, IMAGES, SIDES = 20_000, 64, (178, 218)
SPARSITIES = (0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
PARTS = {
    "scripts": r"<script>.*?</script>",
    "figures, drawn": r'<div class="still">.*?</div>',
    "figures, as tables": r'<details class="as-table">.*?</details>',
    "images": r"data:image/[^\"]*",
    "styles": r"<style>.*?</style>",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=30)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="leave the page there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = made_up(Path(temporary, "run"), asked.members)
        for step in (divergence, bias, slices, verdict):
            step(run)
        began = time.perf_counter()
        report(run)
        first = time.perf_counter() - began
        began, worked = time.perf_counter(), time.process_time()
        text = draw(run).read_text(encoding="utf-8")
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
        audit_bytes = run.path("audit.json").stat().st_size
        pairs = sum(map(len, read_audit(run.path("audit.json")).gallery.values()))
    if asked.keep:
        asked.keep.write_text(text, encoding="utf-8")
    print(
        json.dumps(
            {
                "members": asked.members,
                "pairs": pairs,
                "audit_json_bytes": audit_bytes,
                "first_time_s": round(first, 1),
                "time_s": round(seconds, 1),
                "cpu_s": round(cpu, 1),
                "bytes": len(text.encode()),
                "bytes_by_part": parts(text),
                "load": round(os.getloadavg()[0], 1),
                "hardware": hardware(),
            },
            indent=1,
        )
    )


def parts(text: str) -> dict[str, int]:
    """Bytes by part, none counted twice; the rest are tables, cards and prose."""
    found = {}
    for name, pattern in PARTS.items():
        pieces = re.findall(pattern, text, re.DOTALL)
        found[name] = sum(len(piece.encode()) for piece in pieces)
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return found | {"tables, cards and prose": len(text.encode())}


def made_up(folder: Path, members: int) -> Run:
    """A run whose models miss old men more the more they are compressed."""
    rng = np.random.default_rng(0)
    male, old = rng.random(EXAMPLES) < 0.4, rng.random(EXAMPLES) < 0.25
    blond = rng.random(EXAMPLES) < np.where(male, 0.02, 0.24)
    variants = ["dense", {"prune": list(SPARSITIES)}, {"int8": ["dynamic", "static"]}]
    config = Config.model_validate_json(
        json.dumps(
            {
                "project": "celeba-sized",
                "label": {"column": "label", "positive": "blond"},
                "groups": {
                    "sex": {"column": "sex"},
                    "age": {"column": "age"},
                    "intersections": [["sex", "age"]],
                },
                "variants": variants,
                "population": {"models": members},
            }
        )
    )
    run = Run.create(folder, config)
    faces = [face(rng) for _ in range(IMAGES)]
    table = pl.DataFrame(
        {
            "example_id": [f"{i:06d}.jpg" for i in range(EXAMPLES)],
            "split": ["test"] * EXAMPLES,
            "label": np.where(blond, "blond", "dark"),
            "sex": np.where(male, "male", "female"),
            "age": np.where(old, "old", "young"),
            "image": [{"bytes": faces[i % IMAGES], "path": None} for i in range(EXAMPLES)],
        }
    )
    train = table.head(9).with_columns(
        pl.lit("train").alias("split"), ("seen " + pl.col("example_id")).alias("example_id")
    )
    AuditedExamples(
        pl.concat([table, train]), ("dark", "blond"), ("sex", "age"), (("sex", "age"),)
    ).write(run.examples)
    run.path("predictions").mkdir()
    difficulty = rng.normal(size=(EXAMPLES, 1))
    dense = None
    for variant in config.resolved_variants:
        harm = (variant.sparsity > 0) * (0.5 + 1.5 * variant.sparsity**4) * (male & old)
        wrong = difficulty + 0.5 * rng.normal(size=(EXAMPLES, members)) > 1.7 - harm[:, None]
        predicted = (blond[:, None] ^ wrong).astype(np.uint16)
        if variant.paired and dense is not None:
            unlucky = rng.random((EXAMPLES, 1)) < 0.003
            flipped = unlucky & (rng.random(dense.shape) < 0.9)
            predicted = dense ^ flipped.astype(np.uint16)
        dense = predicted if dense is None else dense
        population = Predictions(
            variant=variant.name,
            example_ids=tuple(table["example_id"]),
            members=tuple(range(members)),
            classes=("dark", "blond"),
            predicted=predicted,
        )
        population.write(run.predictions(variant.name))
        if variant.name == "dense":  # of which int8 was exported
            write_network_predictions(run, population)
    return run


def face(rng: np.random.Generator) -> bytes:
    """A JPEG of CelebA's size with as much detail as a photograph."""
    from PIL import Image

    coarse = rng.integers(0, 256, (28, 23, 3), dtype=np.uint8)
    large = np.asarray(Image.fromarray(coarse).resize(SIDES, Image.Resampling.BICUBIC), float)
    noisy = np.clip(large + rng.normal(0, 6, large.shape), 0, 255).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(noisy).save(content, "JPEG", quality=90)
    return content.getvalue()


if __name__ == "__main__":
    main()
