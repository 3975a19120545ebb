"""What does the default gate say of audits whose truth is known, and of what it forecasts?

    python benchmarks/verdict.py gate                     # all cells, 400 audits each
    python benchmarks/verdict.py gate --worlds team --members 5 --audits 100 --out team.jsonl
    python benchmarks/verdict.py since --pairs 100        # pairs of audits, 5 then 20 models
    python benchmarks/verdict.py forecasts --audits 300   # of each number of members

A cell of `gate` is a world, a way of compressing, a number of members and a harm (`worlds.py`). Its
audits are drawn, measured by the functions that the steps of an audit call, and judged by the
default rules. The seeds of a cell are 0, 1, 2, ...: run with the code of another checkout first on
PYTHONPATH, the script judges the same predictions, so that two tables can be compared audit by
audit (`--show before.jsonl after.jsonl`). One line of JSON an audit goes to `--out`.

Both audits of a pair of `since` are drawn from one world with models and examples of their own; the
second is judged by `since_previous` beside the first. Version 0.1.0 called the excess worse in 41
of 60 such pairs, for its excess grew with the number of models.

Each audit of `forecasts` is a part of a larger one: the first members, on a random tenth of the
examples. Where its verdict is UNSURE and the gate forecasts "8 to 15 models would settle it",
leaning to PASS, the audit is enlarged to 15 models (or to as many times the examples as the
forecast says), the present ones among them, and judged again. The forecast is right if the test
that it names then ends as it leaned.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from cases import run
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from worlds import COMPRESSIONS, HARMS, WORLDS, Compression, Drawn, Harm, World, draw, wilson

from scotoma.audit import Audit, GateFile
from scotoma.audit.base import rows_at
from scotoma.audit.divergence import Changed, Divergence
from scotoma.audit.document import VERSION
from scotoma.audit.gate import TestResult
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import GateRules, default_rules, parse_rules
from scotoma.datasets import AuditedExamples
from scotoma.divergence import excess, flip_rate
from scotoma.document.jsonable import jsonable
from scotoma.numbers import FEWEST_RUNS, undefined
from scotoma.predictions import Predictions
from scotoma.steps.measures.harms import AgainstLabels
from scotoma.steps.measures.pairs import PopulationPair, as_examples
from scotoma.verdict.gate import judge
from scotoma.verdict.words import hangs_on

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


def judged_audits(cell: Cell, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
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


def report_cells(runs: list[list[dict[str, Any]]]) -> None:
    """Print a table, a row a cell; of several runs, the audits that all of them judged."""
    by_audit = [{(*_cell(line), line["seed"]): line for line in run} for run in runs]
    common = [audit for audit in by_audit[0] if all(audit in own for own in by_audit)]
    titles = ["PASS", "UNSURE", "FAIL", "planted: cleared", "shown", "s"]
    table = Table("world", "variant", "K", "harm", "audits", *titles * len(runs))
    cells: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for audit in common:
        cells.setdefault(audit[:-1], []).append(audit)
    for cell, judged_audits in cells.items():
        shares = [
            share for own in by_audit for share in _shares([own[each] for each in judged_audits])
        ]
        table.add_row(*map(str, cell), str(len(judged_audits)), *shares)
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


def gate(
    worlds: tuple[str, ...] = tuple(WORLDS), variants: tuple[str, ...] = tuple(COMPRESSIONS),
    harms: tuple[str, ...] = tuple(HARMS), members: tuple[int, ...] = (1, 5, 10),
    audits: int = 400, first: int = 0, out: Path | None = None, show: tuple[Path, ...] = (),
) -> None:  # fmt: skip
    """How often the default gate passes what is harmless, and what it does with harm."""
    if show:
        report_cells([[json.loads(line) for line in file.open(encoding="utf-8")] for file in show])
        return
    cells = [
        Cell(WORLDS[world], COMPRESSIONS[variant], k, HARMS[harm])
        for world in worlds
        for harm in harms
        for variant in variants
        for k in members
        if variant != "retrained" or k > 1  # two models say nothing of training again
        if HARMS[harm].fits(WORLDS[world])
    ]
    lines = []
    for cell in cells:
        own = list(judged_audits(cell, range(first, first + audits)))
        lines += own
        print(*cell.names.values(), len(own), *_shares(own), sep="  ", flush=True)
        append(out, own)
    report_cells([lines])


def append(out: Path | None, lines: list[dict[str, Any]]) -> None:
    """Write lines of JSON, where they are asked for."""
    if out:
        with out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


RULE = "rules: [{id: since_previous, metric: since_previous, margin: 0}]"  # any rise is worse


def later(world_name: str, members: tuple[int, ...], seed: int) -> tuple[str, list[str]]:
    """The verdict on the second audit of a pair, and the tests that fail."""
    world, retrained = WORLDS[world_name], COMPRESSIONS["retrained"]
    rules: GateRules = parse_rules(RULE, "since")
    audits = [
        measured(world, retrained, draw(world, retrained, HARMS["none"], k, 2 * seed + place), seed)
        for place, k in enumerate(members)
    ]
    before = PreviousAudit(audit=Comparable.of(audits[0]), of="the first")
    variant = judge(audits[1], rules, TODAY, before).variants[0]
    return variant.verdict, [f.where for f in variant.tests if f.verdict == "FAIL"]


def since(
    worlds: tuple[str, ...] = ("team5",), members: tuple[int, ...] = (5, 20), pairs: int = 100
) -> None:
    """How often a later audit with more models reads as worse, where nothing changed."""
    for name in worlds:
        seen: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for seed in range(pairs):
            verdict, names = later(name, tuple(members), seed)
            seen[verdict] += 1
            failed.update(names)
        Console().print(
            f"{name}, retrained, {members[0]} then {members[1]} models: worse "
            f"{wilson(seen['FAIL'], pairs)} of {pairs}; {dict(seen)}; {dict(failed)}"
        )


MOST_MEMBERS = 60  # that are drawn
MOST_TIMES = 10  # examples that are drawn, in times those of an audit
DESIGNS = [
    (world, variant, harm)
    for world in ("team", "team5", "cifar10")
    for variant, harm in (
        ("int8-1%", "none"), ("int8-1%", "class-5"), ("int8-1%", "group-5"),
        ("retrained", "none"), ("retrained", "class-5"),
    )
]  # fmt: skip


def forecast_audits(cell: Cell, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """What the gate forecasts of each audit, and what became of it."""
    large = _times(cell.world, MOST_TIMES)
    for seed in seeds:
        members = 1 if cell.members == 1 else MOST_MEMBERS
        drawn = draw(large, cell.compression, cell.harm, members, seed)
        rows = np.random.default_rng(seed).permutation(large.rows)
        gate = _part(cell, drawn, rows[: cell.world.rows], cell.members, seed)
        line = cell.names | {"seed": seed, "verdict": gate.verdict}
        if gate.verdict != "UNSURE":
            yield line | {"by": "", "outcome": "settled"}
            continue
        finding = hangs_on(gate.variants[0].tests)
        outlook = None if finding is None else finding.outlook
        if finding is None or outlook is None or outlook.by is None:
            yield line | {"by": "", "outcome": "none made"}
            continue
        line |= {"by": outlook.by, "leaning": outlook.leaning, "high": outlook.high}
        times = outlook.high / outlook.now if outlook.by == "examples" else 1.0
        models = int(outlook.high) if outlook.by == "models" else cell.members
        if times > MOST_TIMES or models > members:
            yield line | {"outcome": "beyond"}
            continue
        more = rows[: math.ceil(times * cell.world.rows)]
        later = _part(cell, drawn, more, models, seed).variants[0]
        asked = finding.rule, finding.where
        named = next((f.verdict for f in later.tests if (f.rule, f.where) == asked), "")
        outcome = "right" if named == outlook.leaning else "wrong"
        yield line | {"later": named, "variant": later.verdict, "outcome": outcome}


def _times(world: World, factor: int) -> World:
    """The same world with a larger test set."""
    return replace(
        world,
        class_rows=tuple(factor * rows for rows in world.class_rows),
        attributes=tuple(
            replace(own, rows=tuple(factor * rows for rows in own.rows)) for own in world.attributes
        ),
    )


def _part(cell: Cell, drawn: Drawn, rows: Any, members: int, seed: int) -> GateFile:
    """The verdict on some of the examples with the first members."""
    part = replace(
        drawn, labels=drawn.labels[rows], attributes=drawn.attributes[:, rows],
        dense=drawn.dense[rows, :members], compressed=drawn.compressed[rows, :members],
    )  # fmt: skip
    own = cell.world
    world: Any = SimpleNamespace(
        rows=len(rows), classes=own.classes, binary=own.binary, attributes=own.attributes
    )
    return judged(world, cell.compression, part, seed)


def report_forecasts(lines: list[dict[str, Any]]) -> None:
    """Print how many forecasts came true, a row a number of members and kind."""
    table = Table("K", "forecast", "audits", "UNSURE", "made", "checked", "right")
    for members in sorted({line["members"] for line in lines}):
        own = [line for line in lines if line["members"] == members]
        unsure = [line for line in own if line["verdict"] == "UNSURE"]
        for by in ("models", "examples"):
            made = [line for line in own if line["by"] == by]
            checked = [line for line in made if line["outcome"] in ("right", "wrong")]
            right = sum(line["outcome"] == "right" for line in checked)
            share = wilson(right, len(checked)) if checked else ""
            counts = (len(own), len(unsure), len(made), len(checked))
            table.add_row(str(members), by, *map(str, counts), share)
    Console(width=150).print(table)


def forecasts(
    worlds: tuple[str, ...] = ("team", "team5", "cifar10"), members: tuple[int, ...] = (1, 5, 10),
    audits: int = 300, first: int = 0, out: Path | None = None,
) -> None:  # fmt: skip
    """How often the gate is right about what would settle an UNSURE variant."""
    cells = [
        Cell(WORLDS[world], COMPRESSIONS[variant], k, HARMS[harm])
        for k in members
        for world, variant, harm in DESIGNS
        if world in worlds and (variant != "retrained" or k > 1)
    ]
    lines = []
    for cell in cells:
        alike = sum(other.members == cell.members for other in cells)
        own = list(forecast_audits(cell, range(first, first + math.ceil(audits / alike))))
        lines += own
        print(cell.names, dict(Counter(line["outcome"] for line in own)), flush=True)
        append(out, own)
    report_forecasts(lines)


if __name__ == "__main__":
    run(__doc__, gate, since, forecasts)
