"""Does an audit find harm that is there? Bias of known size is planted, and must be found."""

from __future__ import annotations

import datetime
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scotoma.audit import Audit, GateResult, read_audit, read_part
from scotoma.commands.asking import Answer
from scotoma.config import parse_config
from scotoma.config.gate import parse_rules
from scotoma.document import Cell, Column, Document, Section, Table
from scotoma.document.jsonable import jsonable
from scotoma.errors import ScotomaError
from scotoma.numbers import Estimate
from scotoma.power.simulate import PlantedAudit, PlantedGroup, planted_audit
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.steps.prepare import prepare
from scotoma.steps.table import STEPS
from scotoma.steps.verdict import verdict
from scotoma.verdict.evidence import read_estimate

MEMBERS = 10
PLANTED = {"women": 1.0, "men": 0.0, "old": 0.5, "young": 0.0}  # rise of the error, a fraction
SIZES = {"women": 3_000, "men": 6_000, "old": 3_000, "young": 6_000}
RATE = 0.05
RULES = """\
rules:
  - {id: error, metric: error, over: groups, max_increase: {relative: 0.25, absolute: 0.005}}
"""
CONFIG = """\
project: planted
source: {kind: predictions, files: 'FOLDER/predictions.parquet', examples: 'FOLDER/examples.csv'}
label: {column: label, positive: 1}
groups: {group: {column: group}}
population: {seed: %d}
tracking: {uri: 'off'}
"""


@dataclass(frozen=True)
class Recovered:
    """What was planted in one group, and what the audit says of it.

    Attributes:
        variant: `harmed`, or `dense again`, a second dense population.
        group: Name of the group.
        planted: Rise of the error, a fraction of it.
        recovered: The rise in the audit, with an interval that is adjusted for all rows.
    """

    variant: str
    group: str
    planted: float
    recovered: Estimate

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was planted."""
        return self.recovered.low <= self.planted <= self.recovered.high


def find_planted(seed: int) -> Answer:
    """Plant bias, audit it by all steps from prepared data to the verdict, and say what is found.

    Args:
        seed: Draws the audit.

    Returns:
        Document, content, and an error where what was planted was not recovered, or a second dense
        population did not pass.
    """
    rows, verdicts = self_test(seed)
    missed = [f"{row.variant}, {row.group}" for row in rows if not row.inside]
    error = None
    if missed or verdicts != {"dense again": "PASS", "harmed": "FAIL"}:
        what = f"the interval of {missed[0]} misses what was planted" if missed else f"{verdicts}"
        error = ScotomaError(
            f"--planted must find what it planted, got {what}; 5 of 100 seeds miss by chance: "
            "repeat with another --seed, and report a second miss"
        )
    content = {"version": 1, "seed": seed, "verdicts": verdicts,
               "rows": [jsonable(row) | {"inside": row.inside} for row in rows]}  # fmt: skip
    return Answer(_document(rows, verdicts), content, refusal=error)


def self_test(seed: int) -> tuple[list[Recovered], dict[str, str]]:
    """Plant, audit, read.

    Args:
        seed: Draws the audit.

    Returns:
        A row a variant and group, and the verdict on each variant.
    """
    # The same seed and rates give the same dense members beside both compressed populations.
    audits = {
        name: planted_audit(_groups(harmed=name == "harmed"), members=MEMBERS, seed=seed)
        for name in ("dense again", "harmed")
    }
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        home = Path(folder)
        _write(home, audits)
        audit, gate = _audited(home, seed)
    names = audit.group_names
    level = 1 - 0.05 / (2 * len(PLANTED))
    rows = [
        Recovered(
            variant, name, PLANTED[name] if variant == "harmed" else 0.0,
            read_estimate(row.number).at(level),
        )
        for variant in audits
        for row in audit.numbers("rates", variant, metric="error", what="relative")
        if (name := names[str(row.group)]) in PLANTED
    ]  # fmt: skip
    return rows, {variant.name: variant.verdict for variant in gate.variants}


def _groups(*, harmed: bool) -> list[PlantedGroup]:
    return [
        PlantedGroup(name=name, n=SIZES[name], rate=RATE, relative=rise if harmed else 0.0)
        for name, rise in PLANTED.items()
    ]


def _write(home: Path, audits: dict[str, PlantedAudit]) -> None:
    """The two tables that somebody with predictions of their own would bring."""
    first = next(iter(audits.values()))
    ids = [f"{row:05d}" for row in range(len(first.labels))]
    group = [first.names[place] for place in first.groups.argmax(axis=0)]
    examples = pl.DataFrame({"example_id": ids, "label": first.labels, "group": group})
    examples.write_csv(home / "examples.csv")
    compressed = {name: audit.compressed for name, audit in audits.items()}
    tables = [
        pl.DataFrame({"example_id": ids, "predicted": predicted[:, member]}).with_columns(
            pl.lit(variant).alias("variant"), pl.lit(f"{member}").alias("model")
        )
        for variant, predicted in {"dense": first.dense, **compressed}.items()
        for member in range(MEMBERS)
    ]
    pl.concat(tables).write_parquet(home / "predictions.parquet")


def _audited(home: Path, seed: int) -> tuple[Audit, GateResult]:
    """The audit and the verdict, by the steps of the pipeline in this process."""
    text = (CONFIG % seed).replace("FOLDER", str(home))
    run = Run.create(home / "run", parse_config(text, "planted").completed())
    Judging(parse_rules(RULES, "planted"), datetime.date(2027, 3, 1)).leave(run)
    prepare(run)
    steps = list(STEPS)
    for step in steps[steps.index("divergence") : steps.index("verdict")]:
        STEPS[step].function(run)
    audit, gate, _ = verdict(run)
    return read_audit(audit), read_part(gate, GateResult)


def _document(rows: list[Recovered], verdicts: dict[str, str]) -> Document:
    columns = [
        Column("variant", "variant"), Column("group", "group"),
        Column("planted", "planted", "percent"),
        Column("recovered", f"recovered [{100 * rows[0].recovered.level:.1f}%]", "percent"),
        Column("missed", ""),
    ]  # fmt: skip
    cells: list[dict[str, Cell]] = [
        {"variant": row.variant, "group": row.group, "planted": row.planted,
         "recovered": row.recovered, "missed": "" if row.inside else "missed"}
        for row in rows
    ]  # fmt: skip
    table = Table("recovered", "Rise of the error", columns, cells, stub=2)
    answer = [f"{name}: {word}" for name, word in verdicts.items()]
    return Document(
        "What was planted, and what the audit found",
        sections=[Section("recovered", "", answer, [table])],
    )
