"""How often audits of labels, boxes or tokens flag what is harmless, and find what is not.

    python benchmarks/several_labels.py               # 200 audits without harm, 200 with
    python benchmarks/several_labels.py --audits 20   # a glance
    python benchmarks/several_labels.py --kind boxes  # of images; or tokens, of sentences

An audit is 800 photographs with 4 labels each, 6 models a side. Errors on labels of a photograph
hang together, and so do those of one model. Where harm is planted, errors on umbrellas rise by what
`scotoma audit --plan` prints for that group. A box is found or missed, its class is the group; a
token has one of three classes, the language of its sentence is the group. Measured and judged by
the steps of the pipeline; flagged is an audit without harm that the default gate fails, found is
harm whose interval of the relative change of the group's error lies above 0.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import norm

from scotoma.audit import read_audit
from scotoma.config import Config, parse_config
from scotoma.config.gate import default_rules
from scotoma.datasets import AuditedExamples
from scotoma.datasets.label_pairs import label_pairs
from scotoma.datasets.select_examples import examples_from_source
from scotoma.power.forecast import forecast
from scotoma.power.model import Design
from scotoma.predictions import Predictions
from scotoma.run import Run, write_json
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from scotoma.steps.import_predictions import precision_file
from scotoma.steps.slices import slices
from scotoma.steps.verdict import verdict
from scotoma.verdict.gate import judge

LABELS = ("bicycle", "dog", "handbag", "umbrella")
HARMED = len(LABELS) - 1
PHOTOGRAPHS, MODELS, RATE = 800, 6, 0.09
HARD, TOGETHER, RUN = 1.5, 0.3, 0.1  # sd of difficulty, share of the photograph, sd of a run
CORRELATION = 0.95  # of difficulties before and after compression, where it harms; else 1
CONFIG = f"""\
project: planted
source: {{kind: predictions, files: none, examples: none}}
label: {{columns: [{", ".join(LABELS)}]}}
groups: {{sex: {{column: sex}}}}
variants: [dense, {{predictions: [int8]}}]
population: {{models: {MODELS}}}
"""
PARTS = """\
project: planted
source: {kind: KIND, files: none, examples: none}
label: {column: label}
cluster: {column: whole}
groups: {part: {column: part}}
variants: [dense, {predictions: [int8]}]
population: {models: 6}
"""
CONFIGS = {
    "labels": CONFIG,
    "boxes": PARTS.replace("KIND", "detections"),
    "tokens": PARTS.replace("KIND", "generic"),
}
TODAY = datetime.date(2027, 3, 1)


def main() -> None:
    """Draw, measure, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200, help="without harm, and with")
    parser.add_argument("--kind", choices=list(CONFIGS), default="labels")
    asked = parser.parse_args()
    kind = asked.kind
    with tempfile.TemporaryDirectory() as folder:  # of one cluster examples count once
        tested = AuditedExamples.read(drawn(Path(folder), 0.0, 0, kind).examples, split="test")
        number = harmed_clusters(tested, kind)
    least = forecast(Design(group_n=number, rate=RATE, members=MODELS)).value
    began = time.process_time()
    flagged = sum(is_flagged(seed, kind) for seed in range(asked.audits))
    print(f"no harm: {flagged} of {asked.audits} audits flagged", flush=True)
    hits = sum(is_found(seed, least, kind) for seed in range(asked.audits))
    print(f"{least:+.0%} planted: found in {hits} of {asked.audits} audits")
    print(f"took {time.process_time() - began:.0f} s of CPU")


def harmed_clusters(tested: AuditedExamples, kind: str) -> int:
    """Count the clusters of the group that is harmed."""
    name, value = harmed_group(kind)
    inside = (tested.table[name] == value).to_numpy()
    assert tested.clusters is not None
    return len(np.unique(tested.clusters[inside]))


def harmed_group(kind: str) -> tuple[str, str]:
    """Attribute and value of the group that is harmed."""
    return ("label_name", LABELS[HARMED]) if kind == "labels" else ("part", LABELS[HARMED])


def is_flagged(seed: int, kind: str) -> bool:
    """Whether the default gate fails an audit without harm."""
    with tempfile.TemporaryDirectory() as folder:
        run = drawn(Path(folder), 0.0, seed, kind)
        for step in (divergence, bias, slices):
            step(run)
        audit = read_audit(verdict(run)[0])
    rules = default_rules(positive=kind == "labels")
    return judge(audit, rules, TODAY).verdict == "FAIL"


def is_found(seed: int, relative: float, kind: str) -> bool:
    """Whether the rise of the group's error is shown."""
    with tempfile.TemporaryDirectory() as folder:
        run = drawn(Path(folder), relative, seed, kind)
        section = json.loads(bias(run)[0].read_text())
    address = ("error", "=".join(harmed_group(kind)), "relative")
    (row,) = (
        row
        for row in section["rows"]["rates"]
        if (row["metric"], row["group"], row["what"]) == address
    )
    low = row["number"]["low"]
    return low is not None and low > 0


def drawn(folder: Path, relative: float, seed: int, kind: str) -> Run:
    """A run with its examples and predictions.

    Args:
        folder: Empty.
        relative: By how much errors on the harmed label rise, a fraction; 0 for no harm anywhere.
        seed: Decides all that is drawn.
        kind: What the examples are.
    """
    rng = np.random.default_rng(seed)
    config = parse_config(CONFIGS[kind], "planted")
    shape = (PHOTOGRAPHS, len(LABELS))
    if kind == "labels":
        examples, right, harmed = labelled(rng, seed, config)
    else:
        examples, right, harmed = parts(rng, kind, config)
    run = Run.create(folder / "run", config)
    examples.write(run.examples)
    if kind == "boxes":
        write_json(precision_file(run.root), {})  # no detections lie behind what is drawn
    run.path("predictions").mkdir()
    before, other = difficulty(rng), difficulty(rng)
    kept = CORRELATION if relative else 1.0
    after = kept * before + np.sqrt(1 - kept**2) * other
    for name, hard, rates in (
        ("dense", before, np.full(shape, RATE)),
        ("int8", after, RATE * (1 + relative * harmed)),
    ):
        cut = norm.ppf(rates)[..., None] * np.sqrt(1 + HARD**2 + RUN**2)
        tried = hard[..., None] + RUN * rng.normal(size=MODELS) + rng.normal(size=(*shape, MODELS))
        wrong = (tried < cut).reshape(-1, MODELS)
        predicted = (right[:, None] + wrong) % len(examples.classes)
        Predictions(
            variant=name, example_ids=tuple(examples.ids), members=tuple(range(MODELS)),
            classes=examples.classes, predicted=predicted.astype(np.uint8),
        ).write(run.predictions(name))  # fmt: skip
    return run


def parts(
    rng: np.random.Generator, kind: str, config: Config
) -> tuple[AuditedExamples, np.ndarray, np.ndarray]:
    """Boxes of images or tokens of sentences, their class ids, and which are harmed, (N, L)."""
    shape = (PHOTOGRAPHS, len(LABELS))
    own = rng.integers(0, len(LABELS), shape)
    own = own if kind == "boxes" else np.repeat(own[:, :1], len(LABELS), axis=1)
    classes = ["found"] if kind == "boxes" else ["name", "other", "verb"]
    table = pl.DataFrame(
        {
            "example_id": [str(row) for row in range(own.size)],
            "split": "test",
            "whole": np.repeat([f"w{row}" for row in range(PHOTOGRAPHS)], len(LABELS)),
            "part": np.array(LABELS)[own.ravel()],
            "label": np.array(classes)[rng.integers(0, len(classes), own.size)],
        }
    )
    examples = examples_from_source(table, config, "drawn")
    return examples, examples.labels, own == HARMED


def labelled(
    rng: np.random.Generator, seed: int, config: Config
) -> tuple[AuditedExamples, np.ndarray, np.ndarray]:
    """Photographs of several labels, a row a label, and which are harmed, shape (N, L)."""
    present = rng.random((PHOTOGRAPHS, len(LABELS))) < 0.3
    table = pl.DataFrame(
        {
            "example_id": [f"{seed}-{row}" for row in range(PHOTOGRAPHS)],
            "split": "test",
            "sex": rng.choice(["female", "male"], PHOTOGRAPHS, p=[0.4, 0.6]),
            **{name: present[:, k].astype(int) for k, name in enumerate(LABELS)},
        }
    )
    examples = examples_from_source(label_pairs(table, config.label, "drawn"), config, "drawn")
    return (
        examples,
        examples.labels,
        np.broadcast_to(np.arange(len(LABELS)) == HARMED, present.shape),
    )


def difficulty(rng: np.random.Generator) -> np.ndarray:
    """How hard each label of each photograph is, shape (N, L)."""
    own = np.sqrt(1 - TOGETHER) * rng.normal(size=(PHOTOGRAPHS, len(LABELS)))
    return HARD * (own + np.sqrt(TOGETHER) * rng.normal(size=(PHOTOGRAPHS, 1)))


if __name__ == "__main__":
    main()
