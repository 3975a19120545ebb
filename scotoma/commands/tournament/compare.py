"""The tournament command: runs of techniques in, a page and its numbers out."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.commands.tournament.examples import bias_on_other_test_sets, cies_of_minority_cells
from scotoma.commands.tournament.runs import FinishedTechniques, read_finished, read_raw
from scotoma.config.techniques import BASE
from scotoma.document import Table
from scotoma.document.html import html_page
from scotoma.document.jsonable import jsonable
from scotoma.document.text import document_text, markdown_text
from scotoma.errors import ConfigError
from scotoma.printable import listed, quoted
from scotoma.published import fairness_variance
from scotoma.runs import (
    RunFinding,
    RunSets,
    Tournament,
    baselines,
    compare_one_seed,
    compare_paired,
    compare_techniques,
    equal_accuracy,
    finding_rows,
    survival,
    table_of_runs,
)
from scotoma.runs.section import TournamentResult, headline_metric, tournament_document
from scotoma.storage.files import written

__all__ = ["TournamentQuestion", "compare_read_runs", "run_tournament", "unstable"]

PUBLISHED = (
    "Published totals are those of Qian et al. 2021 over all 154 cells of their study; other "
    "techniques or fewer of them give other totals."
)
READS_GROUPS = (
    "Technique {} reads the group of each test example, which may be unlawful or unknown in use: "
    "do not rank it with the others."
)
UNSTABLE = (
    "{} steps the network in every third epoch: {} varies {:.1f} times as much from run to run as "
    "the baseline's, so that a mean of few runs may not hold; train three times as long."
)
BOTH_LEVELS = (
    "Intervals of what compression leaves are about other training runs ({} seeds) and another "
    "test set like this one ({}); tests are about training runs."
)
UNPAIRED = (
    "Members of {} do not derive from the dense ones, so their pairs are arbitrary and intervals "
    "of survival wider: population.forked pairs them in training."
)
NOT_COMPARED = "Technique {} is not compared, since it could not be trained: {}."
OTHER_LABELS = (
    "'N-Flow' and 'N-Base' of the study ran on other splits and with labels mixed otherwise (0.5 "
    "and 0.0): their difference is not that of one technique against another."
)


@dataclass(frozen=True, kw_only=True)
class TournamentQuestion:
    """What is asked of a tournament.

    Attributes:
        runs: Finished audits, `FOLDER` or `TECHNIQUE=FOLDER`, or one configuration to train.
        raw: Table or folder of raw values; None takes `runs`.
        bases: Baselines by name; none finds them by their names.
        shared: Patterns of techniques that share their runs.
        variant: Variant of finished audits whose members are compared; None for dense.
        attribute: Attribute of finished audits; None where they have one.
        protocol: `sound` or `published`.
        level: Coverage of the intervals, a fraction in (0, 1).
        folder: Where audits of a configuration go; None for `runs/PROJECT`.
        quiet: Write nothing to stderr.
    """

    runs: tuple[str, ...] = ()
    raw: Path | None = None
    bases: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    variant: str | None = None
    attribute: str | None = None
    protocol: str = "sound"
    level: float = 0.95
    folder: Path | None = None
    quiet: bool = False


def run_tournament(question: TournamentQuestion, out: Path, formats: Sequence[str]) -> None:
    """Compare techniques, write the page and print the numbers.

    Args:
        question: What is asked.
        out: The page.
        formats: What to print instead of text: `json`, `csv` or `markdown`, one at most.

    Raises:
        ScotomaError: The options or the runs do not fit together.
    """
    if len(formats) > 1:
        raise ConfigError(f"--{formats[0]} and --{formats[1]} exclude each other; choose one")
    result = compare_read_runs(question)
    document = tournament_document(result)
    with written(out) as temporary:
        temporary.write_text(html_page(document), encoding="utf-8")
    write = {
        "json": lambda: json.dumps(jsonable(as_content(result)), indent=1, allow_nan=False) + "\n",
        "csv": lambda: Table.of_frame(as_rows(result)).csv(),
        "markdown": lambda: markdown_text(document),
        "text": lambda: document_text(document) + "\n",
    }
    sys.stdout.write(write[formats[0] if formats else "text"]())
    if not question.quiet:
        sys.stderr.write(f"note    page written to {out}\n")


def as_rows(result: TournamentResult) -> pl.DataFrame:
    """Make one row a number, unrounded, as the rows of an audit are."""
    tournament = result.tournament
    found = {"bias": tournament.cells, "accuracy": tournament.accuracy,
             "spread": tournament.spreads}  # fmt: skip
    return finding_rows({**found, **result.beside})


def as_content(result: TournamentResult) -> dict[str, Any]:
    """Make what --json prints."""
    tournament = result.tournament
    return {
        "version": 2,
        "title": result.title,
        "protocol": tournament.protocol,
        "level": tournament.level,
        "totals": tournament.totals,
        "published_totals": result.published,
        "cells": [_said(cell) | {"verdict": cell.verdict, "costs": cell.costs}
                  for cell in tournament.cells],
        "accuracy": list(map(_said, tournament.accuracy)),
        "undefined": [
            {"technique": name, "metric": metric, "reason": reason}
            for (name, metric), reason in tournament.undefined.items()
        ],
        "rows": as_rows(result).to_dicts(),
        "runs": table_of_runs(tournament.sets).to_dicts(),
        "correlations": tournament.correlations,
        "failed": [{"technique": name, "reason": why} for name, why in result.failed.items()],
        "remarks": result.remarks,
    }  # fmt: skip


def _said(cell: RunFinding) -> dict[str, Any]:
    """The words of a comparison; its numbers are rows."""
    return {
        "technique": cell.technique, "baseline": cell.base, "metric": cell.metric,
        "effect": cell.effect, "mean_moves": cell.moves("mean"), "spread_moves": cell.spread_moves,
    }  # fmt: skip


def compare_read_runs(question: TournamentQuestion) -> TournamentResult:
    """Read the runs and compare them.

    Args:
        question: What is asked.

    Raises:
        ConfigError: Options that do not fit together.
        DataError: Runs that cannot be compared.
    """
    if question.protocol not in ("sound", "published"):
        raise ConfigError(
            f"--protocol must be sound or published, got {quoted(question.protocol)}: choose one"
        )
    if (question.raw is None) == (not question.runs):
        raise ConfigError("tournament compares finished audits or --raw values; name one of them")
    beside: dict[str, list[RunFinding]] = {"survival": [], "equal accuracy": [], "minority": []}
    remarks = [PUBLISHED] if question.protocol == "published" else []
    question, families, repeated, failed = _trained(question)
    remarks += [NOT_COMPARED.format(quoted(name), why) for name, why in failed.items()]
    finished = None
    if question.raw is not None:
        sets: RunSets = read_raw(question.raw)
        title = question.raw.name
    else:
        finished = read_finished(question.runs, question.attribute)
        sets, title = finished.runs(question.variant), f"{len(finished.audits)} audits"
    techniques = list(dict.fromkeys(technique for technique, _ in sets))
    baseline_of = baselines(techniques, question.bases)
    if finished is not None:
        reading = finished.trained(lambda facts: facts.test_groups != "no")
        remarks += [READS_GROUPS.format(quoted(name)) for name in reading]
        if finished.unpaired:
            remarks.append(UNPAIRED.format(", ".join(finished.unpaired)))
        for base in dict.fromkeys(baseline_of.values()):
            names = [one for one in techniques if base in (one, baseline_of.get(one))]
            for what, found in _compressed(finished, names, base, question.level).items():
                beside[what] += found
        seeds = len(next(iter(sets.values())))
        remarks.append(BOTH_LEVELS.format(seeds, _test_set(finished)))
        if repeated:
            again = read_finished(repeated, finished.attribute).runs(question.variant)
            beside["one seed"] = compare_one_seed(sets, again, level=question.level)
    if baseline_of.get("N-Flow") == "N-Base":
        remarks.append(OTHER_LABELS)
    published = question.protocol == "published"
    tournament = compare_techniques(
        sets, baseline_of, protocol="published" if published else "sound", level=question.level
    )
    if finished is not None:
        adversarial = finished.trained(lambda facts: facts.slot == "adversary")
        remarks += unstable(tournament, adversarial)
    beside["shared runs"] = compare_paired(
        sets, [*_families(techniques, question.shared), *families], level=question.level
    )
    study = fairness_variance()
    aims = {
        f"{task}|{metric}": mark
        for task, marks in study.aims.items()
        for metric, mark in marks.items()
    }
    return TournamentResult(
        title or "tournament", tournament, {what: own for what, own in beside.items() if own},
        study.totals if published else None, aims if published else {}, remarks, failed,
    )  # fmt: skip


def _compressed(
    finished: FinishedTechniques, names: Sequence[str], base: str, level: float
) -> dict[str, list[RunFinding]]:
    """What compression leaves of the techniques of a task."""
    audits = {name: finished.audits[name] for name in names}
    variants, attribute = finished.variants, finished.attribute
    sets = {key: own for key, own in finished.sets.items() if key[0] in audits}
    drawn = bias_on_other_test_sets(audits, variants, attribute, finished.metrics)
    return {
        "survival": survival(sets, base=base, dense=variants[0], drawn=drawn, level=level),
        "equal accuracy": equal_accuracy(sets, base=base, drawn=drawn, level=level),
        "minority": cies_of_minority_cells(audits, variants, attribute, base),
    }


def unstable(tournament: Tournament, adversarial: Collection[str]) -> list[str]:
    """Say where runs of an adversary differ more than those of the baseline.

    Args:
        tournament: Techniques against their baselines.
        adversarial: Those that train against an adversary.

    Returns:
        A sentence a technique.
    """
    headline = headline_metric(cell.metric for cell in tournament.cells)
    return [
        UNSTABLE.format(quoted(cell.technique), cell.metric, cell.value("raw spread"))
        for cell in tournament.cells
        if cell.technique in adversarial
        and cell.metric == headline
        and cell.value("raw spread") > 1
    ]


def _test_set(finished: FinishedTechniques) -> str:
    """Count the test examples, and their clusters where rows belong together."""
    test = next(iter(finished.audits.values())).test
    rows = f"{len(test.ids):,} test examples"
    if test.clusters is None:
        return rows
    return f"{rows} in {len(set(test.clusters.tolist())):,} clusters"


def _trained(
    question: TournamentQuestion,
) -> tuple[TournamentQuestion, list[list[str]], tuple[str, ...], Mapping[str, str]]:
    """Train what a configuration asks for.

    Returns:
        Its audits to compare, who shares a training, the audits of one seed, and what failed.
    """
    if len(question.runs) != 1 or not question.runs[0].lower().endswith((".yaml", ".yml")):
        if question.folder is not None:
            raise ConfigError("--runs is where audits of a configuration go; name one, or leave it")
        return question, [], (), {}
    from scotoma.commands.tournament.train import shared_trainings, train_techniques

    done = train_techniques(Path(question.runs[0]), question.folder, quiet=question.quiet)
    contest = done.config.tournament
    attribute = question.attribute or (None if contest is None else contest.attribute)
    asked = replace(question, runs=done.places, attribute=attribute, bases=(BASE,))
    families = [
        [name for name in own if name not in done.failed] for own in shared_trainings(done.config)
    ]
    return asked, [own for own in families if len(own) > 1], done.one_seed, done.failed


def _families(techniques: Sequence[str], patterns: Sequence[str]) -> list[list[str]]:
    families = []
    for pattern in patterns:
        family = [one for one in techniques if fnmatchcase(one, pattern)]
        if len(family) < 2:
            raise ConfigError(
                f"--shared {quoted(pattern)} must match two techniques or more, got {len(family)}: "
                f"choose among {listed(techniques)}"
            )
        families.append(family)
    return families
