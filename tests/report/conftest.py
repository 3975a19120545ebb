"""Small audits measured by the real code, and what looks at their pages."""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import vl_convert

from scotoma.audit import GateResult, read_audit, read_part
from scotoma.config import Config
from scotoma.datasets import AuditedExamples
from scotoma.datasets.thumbnails import shrunk
from scotoma.fix.layers import layers_file
from scotoma.predictions import Predictions
from scotoma.processes.machine import versions
from scotoma.run import Run
from scotoma.steps import report as reporting
from scotoma.steps import slices as slicing
from scotoma.steps import verdict as judging
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from scotoma.verdict.frontier import frontier_rows
from tests.helpers.networks import write_network_predictions


@dataclass(frozen=True)
class Audit:
    """What `render` takes, and the page that the report step wrote from it."""

    content: dict[str, Any]
    images: dict[str, bytes]
    page: str
    gate: dict[str, Any]
    measurements: dict[str, Any]
    run: Run


def png(shade: int, side: int = 4) -> bytes:
    """A grey square."""
    rows = (b"\0" + bytes([shade] * side)) * side

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.fixture(autouse=True, scope="session")
def _drawn_once() -> Iterator[None]:
    """Draw each specification once: most pages here show the same few audits."""
    draw, drawings = vl_convert.vega_to_svg, {}

    @functools.wraps(draw)
    def remembered(vega: dict[str, Any]) -> str:
        key = json.dumps(vega, sort_keys=True)
        if key not in drawings:
            drawings[key] = draw(vega)
        return drawings[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vega_to_svg", remembered)
        yield


@pytest.fixture(scope="session")
def make_audit(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Audit]:
    """Audits of random predictions in which compression fails group `b` more."""

    def made(
        classes: tuple[str, ...] = ("cat", "dog", "owl"),
        values: tuple[str, str] = ("a", "b"),
        attribute: str = "side",
        ids: str = "example",
        positive: str | None = None,
        members: int = 10,
        examples: int = 160,
        clustered: bool = True,
        sparsities: tuple[float, ...] = (0.5, 0.9),
        never: int | None = None,
    ) -> Audit:
        """`never` is a class that compressed members do not predict."""
        rng = np.random.default_rng(0)
        labels = rng.integers(len(classes), size=examples)
        in_b = rng.random(examples) < 0.3
        table = pl.DataFrame(
            {
                "example_id": [f"{ids}-{i}" for i in range(examples)] + ["seen"],
                "split": ["test"] * examples + ["train"],
                "label": [classes[y] for y in labels] + [classes[0]],
                attribute: [values[int(b)] for b in in_b] + [values[0]],
                "cluster": [str(i // 2) for i in range(examples)] + ["seen"],
                "image": [{"bytes": png(i % 256), "path": None} for i in range(examples + 1)],
            }
        )
        config = Config.model_validate_json(
            json.dumps(
                {
                    "project": "tiny",
                    "label": {"column": "label", "positive": positive},
                    "groups": {attribute: {"column": attribute}},
                    "variants": ["dense", {"prune": list(sparsities)}, {"int8": ["dynamic"]}],
                    "population": {"models": members},
                }
            )
        )
        run = Run.create(tmp_path_factory.mktemp("audit"), config)
        table = table if clustered else table.drop("cluster")
        AuditedExamples(table, classes, (attribute,), ()).write(run.examples)
        run.path("predictions").mkdir()
        difficulty = rng.random((examples, 1))
        dense = _predicted(rng, labels, difficulty < 0.1, members, len(classes))
        for variant in config.resolved_variants:
            predicted = dense
            if variant.kind == "prune":
                limit = np.where(in_b, 0.1 + (variant.sparsity > 0.8) * 0.4, 0.12)
                hard = difficulty < limit[:, None]
                predicted = _predicted(rng, labels, hard, members, len(classes))
            elif variant.paired:
                flipped = rng.random(dense.shape) < 0.02
                predicted = np.where(flipped, (dense + 1) % len(classes), dense).astype(np.uint16)
            if never is not None and variant.kind != "dense":
                predicted = np.where(predicted == never, (never + 1) % len(classes), predicted)
            predictions = Predictions(
                variant=variant.name,
                example_ids=tuple(table["example_id"][:examples]),
                members=tuple(range(members)),
                classes=classes,
                predicted=predicted,
                runtimes=("onnxruntime",),
            )
            predictions.write(run.predictions(variant.name))
            if variant.kind == "dense":
                write_network_predictions(run, predictions)
        divergence(run)
        bias(run)
        slicing.slices(run)
        content, gate, *_ = judging.verdict(run)
        page, _ = reporting.report(run)
        # The page shows no bytes of a file, but its pixels encoded anew.
        pixels = (shrunk(row["bytes"]) for row in table["image"])
        images = dict(zip(table["example_id"], pixels, strict=True))
        judged = json.loads(gate.read_text())
        found = json.loads(content.read_text())
        rows = frontier_rows(read_audit(content), read_part(gate, GateResult), {})
        measured = {"frontier": [row.model_dump() for row in rows], "versions": versions()}
        if layers_file(run).exists():
            measured["layers"] = json.loads(layers_file(run).read_text())["variants"]
        return Audit(found, images, page.read_text(), judged, measured, run)

    return made


def _predicted(rng: np.random.Generator, labels: Any, hard: Any, members: int, classes: int) -> Any:
    wrong = hard & (rng.random((len(labels), members)) < 0.7)
    return ((labels[:, None] + wrong) % classes).astype(np.uint16)


@pytest.fixture(scope="session")
def audit(make_audit: Callable[..., Audit]) -> Audit:
    """Three classes, two groups, rows in pairs, ten members."""
    return make_audit()


@pytest.fixture(scope="session")
def shipped(make_audit: Callable[..., Audit]) -> Audit:
    """One dense and one compressed model of each kind."""
    return make_audit(members=1, clustered=False)


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds faults of accessibility."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
