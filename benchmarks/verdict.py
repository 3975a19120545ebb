"""How often the default gate passes what is harmless, and what it does with harm: whole audits.

    python benchmarks/verdict.py                          # all cells, 400 audits each
    python benchmarks/verdict.py --worlds team --members 5 --audits 100 --out team.jsonl

A cell is a world, a way of compressing, a number of members and a harm (`verdict_worlds.py`). Its
audits are drawn, measured by the functions that the steps of an audit call, and judged by the
default rules. The seeds of a cell are 0, 1, 2, ...: run with the code of another checkout first on
PYTHONPATH, the script judges the same predictions, so that two tables can be compared audit by
audit (`--show before.jsonl after.jsonl`). One line of JSON an audit goes to `--out`.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from verdict_draws import Drawn, draw
from verdict_worlds import COMPRESSIONS, HARMS, WORLDS, Compression, Harm, World

from scotoma.audit import Audit, GateFile
from scotoma.audit.base import rows_at
from scotoma.audit.divergence import Changed, Divergence
from scotoma.audit.document import VERSION
from scotoma.audit.gate import TestResult
from scotoma.config.gate import GateRules, default_rules
from scotoma.datasets import AuditedExamples
from scotoma.divergence import excess, flip_rate
from scotoma.document.jsonable import jsonable
from scotoma.numbers import FEWEST_RUNS, undefined
from scotoma.predictions import Predictions
from scotoma.steps.measures.harms import AgainstLabels
from scotoma.steps.measures.pairs import PopulationPair, as_examples
from scotoma.verdict.gate import judge

TODAY = datetime.date(2027, 3, 1)
Z = 1.959964  # of a 95% interval


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    world: World
    compression: Compression
    members: int
    harm: Harm

    @property
    def names(self) -> dict[str, Any]:
        """What identifies it."""
        return {
            "world": self.world.name,
            "variant": self.compression.name,
            "members": self.members,
            "harm": self.harm.name,
        }


def main() -> None:
    """Draw, measure, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--variants", nargs="*", default=list(COMPRESSIONS), choices=COMPRESSIONS)
    parser.add_argument("--harms", nargs="*", default=list(HARMS), choices=HARMS)
    parser.add_argument("--members", type=int, nargs="*", default=[1, 5, 10])
    parser.add_argument("--audits", type=int, default=400, help="of a cell")
    parser.add_argument("--first", type=int, default=0, help="seed of the first audit of a cell")
    parser.add_argument("--out", type=Path, help="file that gets a line of JSON an audit")
    parser.add_argument("--show", type=Path, nargs="*", help="draw nothing: show these files")
    asked = parser.parse_args()
    if asked.show:
        report([[json.loads(line) for line in file.open(encoding="utf-8")] for file in asked.show])
        return
    cells = [
        Cell(WORLDS[world], COMPRESSIONS[variant], members, HARMS[harm])
        for world in asked.worlds
        for harm in asked.harms
        for variant in asked.variants
        for members in asked.members
        if variant != "retrained" or members > 1  # two models say nothing of training again
        if HARMS[harm].fits(WORLDS[world])
    ]
    lines = []
    for cell in cells:
        own = list(audits(cell, range(asked.first, asked.first + asked.audits)))
        lines += own
        print(*cell.names.values(), len(own), *_shares(own), sep="  ", flush=True)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(line) + "\n" for line in own)
    report([lines])


def audits(cell: Cell, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Verdicts on the audits of a cell, with what became of the planted test."""
    for seed in seeds:
        began = time.process_time()
        drawn = draw(cell.world, cell.compression, cell.harm, cell.members, seed)
        between = time.process_time()
        gate = judged(cell.world, cell.compression, drawn, seed)
        findings = gate.variants[0].tests
        questions = [(f.rule, f.where, f.verdict) for f in findings]
        yield cell.names | {
            "seed": seed,
            "verdict": gate.verdict,
            "tests": len(findings),
            "planted": next((f.verdict for f in findings if _is_planted(cell, f)), None),
            "open": [where for _, where, verdict in questions if verdict == "UNSURE"][:20],
            "failed": [where for _, where, verdict in questions if verdict == "FAIL"][:20],
            "draw_s": round(between - began, 4),
            "judge_s": round(time.process_time() - between, 4),
        }


def judged(world: World, compression: Compression, drawn: Drawn, seed: int) -> GateFile:
    """The verdict of the default rules on one audit."""
    audit = measured(world, compression, drawn, seed)
    return judge(audit, _rules(world.binary, audit.scope == "shipped"), TODAY)


@functools.cache
def _rules(positive: bool, shipped: bool) -> GateRules:
    return default_rules(positive=positive, shipped=shipped)


def measured(world: World, compression: Compression, drawn: Drawn, seed: int) -> Audit:
    """The parts of an audit that the default gate reads, measured as its steps measure them."""
    examples, name = examples_of(world, drawn), compression.name
    ids, members = _ids(world.rows), drawn.dense.shape[1]
    dense, compressed = (
        Predictions(
            variant=of, example_ids=ids, members=tuple(range(members)), classes=world.classes,
            predicted=predicted,
        )
        for of, predicted in (("dense", drawn.dense), (name, drawn.compressed))
    )  # fmt: skip
    positive, n_classes = (1 if world.binary else None), len(world.classes)
    pair = PopulationPair(
        examples=as_examples(examples), compressed=compressed, dense=dense,
        paired=compression.paired,
    )  # fmt: skip
    measures = _against_labels(pair, examples, positive)
    cie = excess(
        drawn.dense, drawn.compressed, n_classes, paired=compression.paired,
    )  # fmt: skip
    flips = flip_rate(drawn.dense, drawn.compressed) if compression.paired else None
    measures["divergence"] = [
        *rows_at({}, {"excess": cie.excess}, "cie.", {"excess": cie.excess_variance}),
        *rows_at({}, {"flips": flips}),
    ]
    known = {"n": world.rows, "members": members}
    accuracy = [
        {"variant": of, "what": "top1", "number": undefined("", value=float(right.mean()), **known)}
        for of, right in (
            ("dense", drawn.dense == drawn.labels[:, None]),
            (name, drawn.compressed == drawn.labels[:, None]),
        )
    ]
    groups = examples.partition()
    content: dict[str, Any] = {
        "version": VERSION,
        "scope": "population" if members >= FEWEST_RUNS else "shipped",
        "level": 0.95,
        "examples": {
            "train": 0, "test": world.rows, "clusters": world.rows, "dataset_sha256": "",
            "classes": world.classes, "positive": world.classes[1] if world.binary else None,
            "notes": (),
        },
        "groups": [
            {"key": key, "name": of, "n": int(mask.sum()), "train": 0}
            for key, of, mask in zip(groups.keys, groups.names, groups.masks, strict=True)
        ],
        "variants": [
            {
                "name": one, "kind": "predictions", "sparsity": 0.0, "mode": "", "bits": 32,
                "paired": one == name and compression.paired,
                "derived_from": "dense" if one == name and compression.paired else None,
                "members": members,
            }
            for one in ("dense", name)
        ],
        "rows": {
            question: [{"variant": name} | row for row in rows]
            for question, rows in measures.items()
        }
        | {"accuracy": accuracy},
    }  # fmt: skip
    parts = {
        part: _reader(part).validate_python(value if part == "version" else jsonable(value))
        for part, value in content.items()
    }
    divergence = Divergence.model_construct(
        **dict.fromkeys(Divergence.model_fields)
        | {"cie": Changed(**{part: jsonable(getattr(cie, part)) for part in Changed.model_fields})}
    )
    return Audit.model_construct(
        **parts, divergence={name: divergence}, scotoma="", project="",
        config_sha256="", seed=seed, slices={}, collapsed=(),
    )  # fmt: skip


def _against_labels(
    pair: PopulationPair, examples: AuditedExamples, positive: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Classes and groups as the step `bias` measures them, which the default gate asks about."""
    with tempfile.TemporaryDirectory() as folder:
        measures = AgainstLabels(
            examples=examples, positive=positive, comparisons=1, folder=Path(folder)
        ).measures(pair)
    # No rate of one class against the rest, of which there are many.
    rates = [row for row in measures["rates"] if row["class"] is None]
    return {"impact": measures["impact"], "rates": rates}


def examples_of(world: World, drawn: Drawn) -> AuditedExamples:
    """The test examples of an audit."""
    names = tuple(own.name for own in world.attributes)
    values = [world.classes, *(own.values for own in world.attributes)]
    table = pl.DataFrame(
        [pl.Series(own).gather(code) for own, code in
         zip(values, [drawn.labels, *drawn.attributes], strict=True)],
        schema=["label", *names],
    ).with_columns(pl.Series("example_id", _ids(world.rows)), split=pl.lit("test"))  # fmt: skip
    return AuditedExamples(table, world.classes, names, ())


@functools.cache
def _ids(rows: int) -> tuple[str, ...]:
    return tuple(f"e{row}" for row in range(rows))


@functools.cache
def _reader(part: str) -> TypeAdapter[Any]:
    return TypeAdapter(Audit.model_fields[part].annotation)


def _is_planted(cell: Cell, test: TestResult) -> bool:
    """Whether a test asks for the rate that the harm of a cell raises."""
    rarest = cell.world.classes[cell.world.rarest_classes(1)[0]]
    if cell.harm.where == "class":
        return test.metric == "classes_hurt" and test.class_name == rarest
    attribute, value = cell.world.rarest()
    own = cell.world.attributes[attribute]
    return (
        cell.harm.where == "group"
        and test.metric == ("fnr" if cell.world.binary else "error")
        and test.group == f"{own.name}={own.values[value]}"
    )


def report(runs: list[list[dict[str, Any]]]) -> None:
    """Print a table, a row a cell; of several runs, the audits that all of them judged."""
    by_audit = [{(*_cell(line), line["seed"]): line for line in run} for run in runs]
    common = [audit for audit in by_audit[0] if all(audit in own for own in by_audit)]
    titles = ["PASS", "UNSURE", "FAIL", "planted: cleared", "shown", "s"]
    table = Table("world", "variant", "K", "harm", "audits", *titles * len(runs))
    cells: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for audit in common:
        cells.setdefault(audit[:-1], []).append(audit)
    for cell, audits in cells.items():
        shares = [share for own in by_audit for share in _shares([own[each] for each in audits])]
        table.add_row(*map(str, cell), str(len(audits)), *shares)
    Console(width=60 + 115 * len(runs)).print(table)


def _cell(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["world"], line["variant"], line["members"], line["harm"]


def _shares(own: list[dict[str, Any]]) -> list[str]:
    """One cell of one run: verdicts, what became of the planted test, seconds an audit."""
    n = len(own)
    verdicts, planted = (Counter(line[key] for line in own) for key in ("verdict", "planted"))
    tested = n - planted[None]
    return [
        *(wilson(verdicts[verdict], n) for verdict in ("PASS", "UNSURE", "FAIL")),
        *(wilson(planted[verdict], tested) if tested else "" for verdict in ("PASS", "FAIL")),
        f"{sum(line['draw_s'] + line['judge_s'] for line in own) / n:.3f}",
    ]


def wilson(count: int, n: int) -> str:
    """A share with Wilson's interval.

    >>> wilson(81, 263)
    '.308 [.255, .366]'
    """
    share, square = count / n, Z**2
    centre = (count + square / 2) / (n + square)
    half = Z / (n + square) * math.sqrt(count * (n - count) / n + square / 4)
    numbers = (f"{max(0.0, one):.3f}".removeprefix("0") for one in
               (share, centre - half, min(1.0, centre + half)))  # fmt: skip
    return "{} [{}, {}]".format(*numbers)


if __name__ == "__main__":
    main()
