"""Which techniques are fairer, at what cost, and what does compression leave of it?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from scotoma.document import Document
from scotoma.errors import ConfigError
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.printable import listed, quoted
from scotoma.published import load
from scotoma.runs.comparing import compare_one_seed, compare_paired
from scotoma.runs.finding import RunFinding, finding_rows
from scotoma.runs.finished import (
    FinishedTechniques,
    bias_on_other_test_sets,
    cies_of_minority_cells,
)
from scotoma.runs.section import TournamentResult, headline_metric, tournament_document
from scotoma.runs.survival import equal_accuracy, survival
from scotoma.runs.table import RunSets, table_of_runs
from scotoma.runs.techniques import Tournament, baselines, compare_techniques

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


class TournamentSettings(BaseModel):
    """How techniques are judged.

    Attributes:
        bases: Baselines by name; none finds them by their names.
        paired: Techniques whose names differ only in their number share their runs.
        protocol: `sound` or `published`.
        level: Coverage of the intervals, a fraction in (0, 1).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bases: tuple[str, ...] = ()
    paired: bool = False
    protocol: StatisticsProtocol = "sound"
    level: float = 0.95


def judge_techniques(
    sets: RunSets,
    settings: TournamentSettings,
    *,
    title: str = "tournament",
    finished: FinishedTechniques | None = None,
    families: Sequence[Sequence[str]] = (),
    one_seed: RunSets | None = None,
    failed: Mapping[str, str] | None = None,
) -> TournamentResult:
    """Compare techniques with their baselines; of finished audits also what compression leaves.

    Args:
        sets: Bias and accuracy of 8 runs or more by technique and metric.
        settings: How they are judged.
        title: What is compared.
        finished: The audits that the runs are of; None for raw values.
        families: Techniques that share a training, apart from those that `settings` pairs.
        one_seed: The same techniques, all runs of one seed; None where there are none.
        failed: Technique to why there are no runs of it.

    Raises:
        ConfigError: A baseline is no technique, or nothing is to be paired.
        DataError: Runs that cannot be compared.
    """
    failed = failed or {}
    published, level = settings.protocol == "published", settings.level
    remarks = [PUBLISHED] if published else []
    remarks += [NOT_COMPARED.format(quoted(name), why) for name, why in failed.items()]
    techniques = list(dict.fromkeys(technique for technique, _ in sets))
    baseline_of = baselines(techniques, settings.bases)
    beside: dict[str, list[RunFinding]] = {"survival": [], "equal accuracy": [], "minority": []}
    if finished is not None:
        reading = finished.trained(lambda facts: facts.test_groups != "no")
        remarks += [READS_GROUPS.format(quoted(name)) for name in reading]
        if finished.unpaired:
            remarks.append(UNPAIRED.format(", ".join(finished.unpaired)))
        for base in dict.fromkeys(baseline_of.values()):
            names = [one for one in techniques if base in (one, baseline_of.get(one))]
            for what, found in _compressed(finished, names, base, level).items():
                beside[what] += found
        seeds = len(next(iter(sets.values())))
        remarks.append(BOTH_LEVELS.format(seeds, _test_set(finished)))
    if one_seed is not None:
        beside["one seed"] = compare_one_seed(sets, one_seed, level=level)
    if baseline_of.get("N-Flow") == "N-Base":
        remarks.append(OTHER_LABELS)
    tournament = compare_techniques(sets, baseline_of, protocol=settings.protocol, level=level)
    if finished is not None:
        remarks += unstable(tournament, finished.trained(lambda facts: facts.slot == "adversary"))
    sharing = [*(_numbered(techniques) if settings.paired else ()), *families]
    beside["shared runs"] = compare_paired(sets, sharing, level=level)
    study = load("fairness_variance")
    aims = {
        f"{task}|{metric}": mark
        for task, marks in study.aims.items()
        for metric, mark in marks.items()
    }
    return TournamentResult(
        title, tournament, {what: own for what, own in beside.items() if own},
        study.totals if published else None, aims if published else {}, remarks, failed,
    )  # fmt: skip


def tournament_answer(result: TournamentResult) -> tuple[Document, dict[str, Any]]:
    """Make what people read, and what `--json` prints: a row a number, as those of an audit are."""
    tournament = result.tournament
    found = {"bias": tournament.cells, "accuracy": tournament.accuracy,
             "spread": tournament.spreads, **result.beside}  # fmt: skip
    content = {
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
        "rows": finding_rows(found).to_dicts(),
        "runs": table_of_runs(tournament.sets).to_dicts(),
        "correlations": tournament.correlations,
        "failed": [{"technique": name, "reason": why} for name, why in result.failed.items()],
        "remarks": result.remarks,
    }  # fmt: skip
    return tournament_document(result), content


def _said(cell: RunFinding) -> dict[str, Any]:
    """The words of a comparison; its numbers are rows."""
    return {
        "technique": cell.technique, "baseline": cell.base, "metric": cell.metric,
        "effect": cell.effect, "mean_moves": cell.moves("mean"), "spread_moves": cell.spread_moves,
    }  # fmt: skip


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
    """Count the test examples, and their clusters where they belong together."""
    test = next(iter(finished.audits.values())).test
    examples = len(test.image_ids)
    said = f"{examples:,} test examples"
    if test.several:
        said += f" with {len(test.several):,} labels each"
    clusters = examples if test.clusters is None else len(set(test.clusters.tolist()))
    return said if clusters == examples else f"{said} in {clusters:,} clusters"


def _numbered(techniques: Sequence[str]) -> list[list[str]]:
    """Techniques whose names differ only in the number at their end.

    >>> _numbered(["base", "DD1", "DI1", "DD2"])
    [['DD1', 'DD2']]
    """
    families: dict[str, list[str]] = {}
    for name in techniques:
        families.setdefault(re.sub(r"\d+$", "", name), []).append(name)
    shared = [names for names in families.values() if len(names) > 1]
    if not shared:
        raise ConfigError(
            "--paired compares techniques whose names differ only in a number, such as DD1 and "
            f"DD2, got {listed(techniques)}: rename them, or leave --paired out"
        )
    return shared
