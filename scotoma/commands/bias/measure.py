"""The bias command: a table of labels, predictions and groups, and every number about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.commands.bias.four_fifths import format_four_fifths, measure_four_fifths
from scotoma.commands.bias.page import format_bias
from scotoma.commands.bias.table import BiasQuestion, BiasTable, read_bias_table
from scotoma.commands.shared.long_table import widened
from scotoma.jsonable import jsonable
from scotoma.readers.tables import read_table

__all__ = ["BiasQuestion", "measure_bias", "run_bias"]


def run_bias(
    path: Path,
    question: BiasQuestion,
    *,
    examples: Path | None = None,
    four_fifths: bool = False,
    everything: bool = False,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print error rates by group and conclusions; or all, with Clarify's and the study's metrics.

    Args:
        path: CSV or Parquet, one row per example; with `examples` one row per example and model.
        question: What is asked.
        examples: CSV or Parquet of labels and groups, where `path` has predictions alone.
        four_fifths: Print the tables of the four-fifths rule instead.
        everything: Print every rate and metric before the conclusions.
        as_json: Print JSON instead of the tables.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: The options or the table do not fit together.
    """
    table, notes = read_table(path)
    if examples is not None:
        of_examples, more = read_table(examples)
        table, question = widened(table, of_examples, question)
        notes = (*notes, *more)
    audited = read_bias_table(table, question)
    if not quiet:
        sys.stderr.writelines(f"{message}\n" for message in (*notes, *audited.messages))
    if four_fifths:
        measures = measure_four_fifths(audited, question)
        lines = format_four_fifths(path.name, measures)
    else:
        measures = measure_bias(audited, question)
        lines = format_bias(path.name, measures, everything=everything)
    if as_json:
        sys.stdout.write(json.dumps(jsonable(measures), indent=1, allow_nan=False) + "\n")
    else:
        sys.stdout.write("\n".join(lines) + "\n")


def measure_bias(audited: BiasTable, question: BiasQuestion) -> dict[str, Any]:
    """Every number of the command, with its n and interval or the reason why it has none.

    Args:
        audited: From `read_bias_table`.
        question: What is asked.

    Returns:
        `groups`, `subgroups`, `clarify` and `fairness`, rows that hold estimates.
    """
    rows, members = audited.predicted.shape
    classes = audited.classes
    return {
        "examples": rows,
        "clusters": rows if audited.clusters is None else int(audited.clusters.max()) + 1,
        "models": members,
        "baseline_models": 0 if audited.baseline is None else audited.baseline.shape[1],
        "paired": question.paired,
        "classes": classes,
        "positive": None if audited.positive is None else classes[audited.positive],
        "level": question.level,
        "groups": [
            {"group": name, "examples": int(mask.sum())} for name, mask in audited.groups.items()
        ],
        "subgroups": _subgroups(audited, question),
        "clarify": list(_clarify(audited, question)),
        "fairness": list(_fairness(audited, question)),
    }


def _subgroups(audited: BiasTable, question: BiasQuestion) -> list[dict[str, Any]]:
    from scotoma.bias import amplification, rates, selection_changes, selection_rates

    names, masks = list(audited.groups), np.stack(list(audited.groups.values()))
    n_classes, positive = len(audited.classes), audited.positive
    if audited.baseline is None:
        results: Sequence[Any] = rates(
            audited.labels, audited.predicted, masks, names, positive=positive,
            n_classes=n_classes, clusters=audited.clusters, level=question.level,
        )  # fmt: skip
        if positive is not None:
            results = _with_selection(results, selection_rates(
                audited.predicted == positive, masks, names, clusters=audited.clusters,
                level=question.level,
            ))  # fmt: skip
        numbers_of = [{"predicted": one.rate} for one in results]
    else:
        results = amplification(
            audited.labels, audited.baseline, audited.predicted, masks, names, positive=positive,
            n_classes=n_classes, clusters=audited.clusters, paired=question.paired,
            level=question.level,
        )  # fmt: skip
        if positive is not None:
            results = _with_selection(results, selection_changes(
                audited.baseline == positive, audited.predicted == positive, masks, names,
                clusters=audited.clusters, paired=question.paired, level=question.level,
            ))  # fmt: skip
        numbers_of = [
            {
                "baseline": one.dense,
                "predicted": one.compressed,
                "absolute": one.absolute,
                "relative": one.relative,
            }
            for one in results
        ]
    return [
        {
            "group": one.group,
            "metric": one.metric,
            "class": None if one.class_id is None else audited.classes[one.class_id],
        }
        | part
        for one, part in zip(results, numbers_of, strict=True)
    ]


def _with_selection(rates: Sequence[Any], selected: Sequence[Any]) -> list[Any]:
    """Put the selection rate of each group behind its error rates."""
    each = len(rates) // len(selected)
    return [
        one
        for place, own in enumerate(selected)
        for one in (*rates[place * each : (place + 1) * each], own)
    ]


def _clarify(audited: BiasTable, question: BiasQuestion) -> Iterator[dict[str, Any]]:
    from scotoma.bias.clarify import METRICS, all_metrics, metric_changes

    outcome = audited.positive
    y = None if outcome is None else audited.labels == outcome
    after = None if outcome is None else audited.predicted == outcome
    before = None
    if audited.baseline is not None and outcome is not None:
        before = audited.baseline == outcome
    late = [name for name, metric in METRICS.items() if metric.stage == "post-training"]
    for facet in audited.facets:
        table = partial(
            all_metrics, d=facet.d, y=y, strata=audited.strata, features=audited.features,
            labels=audited.labels, clusters=audited.clusters, level=question.level,
            seed=question.seed,
        )  # fmt: skip
        parts = {"predicted": table(p=after)}
        if before is not None and after is not None:
            parts["baseline"] = table(p=before, only=late)
            parts["change"] = metric_changes(
                d=facet.d, dense=before, compressed=after, y=y, strata=audited.strata,
                features=audited.features, clusters=audited.clusters, paired=question.paired,
                level=question.level,
            )  # fmt: skip
        for name, metric in METRICS.items():
            yield {
                "column": facet.column,
                "disadvantaged": facet.disadvantaged,
                "advantaged": facet.advantaged,
                "metric": name,
                "title": metric.title,
                "lacks": _lacking(metric.needs, audited),
            } | {part: table[name] for part, table in parts.items() if name in table}


def _lacking(needs: Sequence[str], audited: BiasTable) -> str:
    """Options without which a metric is not computed."""
    options = {
        "y": ("--positive", audited.positive is None),
        "p": ("--positive", audited.positive is None),
        "strata": ("--strata", audited.strata is None),
        "features": ("--feature", audited.features is None),
    }
    lacking = [options[need][0] for need in needs if need in options and options[need][1]]
    return " and ".join(dict.fromkeys(lacking))


def _fairness(audited: BiasTable, question: BiasQuestion) -> Iterator[dict[str, Any]]:
    from scotoma.bias.fairness import NAMES, SIGNED, fairness_bounds, signed

    labels, outcome, n_classes = audited.labels, audited.positive, len(audited.classes)
    populations = {"baseline": audited.baseline, "predicted": audited.predicted}
    if outcome is not None:  # one class against the rest: the other classes need no counts apart
        labels, n_classes = (labels == outcome).astype(np.intp), 2
    for name, (values, codes) in audited.values.items():
        masks = codes == np.arange(len(values))[:, None]
        predictions = {
            part: ids if outcome is None else (ids == outcome).astype(np.intp)
            for part, ids in populations.items()
            if ids is not None
        }
        bounds = {
            part: fairness_bounds(
                NAMES, labels, ids, masks, n_classes=n_classes,
                class_id=None if outcome is None else 1, clusters=audited.clusters,
                level=question.level, seed=question.seed,
            )
            for part, ids in predictions.items()
        }  # fmt: skip
        for metric in NAMES:
            row: dict[str, Any] = {"column": name, "groups": values, "metric": metric}
            for part, ids in predictions.items():
                row[part] = bounds[part][metric]
                if metric in SIGNED and outcome is not None and len(values) == 2:
                    row[f"{part}_signed"] = signed(
                        metric, labels, ids, masks, class_id=1, clusters=audited.clusters,
                        level=question.level,
                    )  # fmt: skip
            yield row
