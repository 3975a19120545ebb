"""Which groups does a model fail, by one table of labels, predictions and groups?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.four_fifths import STANDINGS, impact_ratios, shown_ratio, standing
from scotoma.bias.table import BiasQuestion, BiasTable, read_bias_table
from scotoma.bias.table_section import bias_document
from scotoma.document import Column, Document, Section, Table
from scotoma.errors import ConfigError
from scotoma.numbers import FEW_RUNS
from scotoma.printable import quoted


def judge_table(
    place: str, question: BiasQuestion, *, four_fifths: bool = False, everything: bool = False
) -> tuple[Document, dict[str, Any], Sequence[str]]:
    """Error rates by group and conclusions; or all, with Clarify's and the study's metrics.

    Args:
        place: As for `read_bias_table`.
        question: What is asked.
        four_fifths: Show the tables of the four-fifths rule instead.
        everything: Show every rate and metric before the conclusions.

    Returns:
        What is shown, every number of it, and how the table was read.

    Raises:
        ScotomaError: The options or the table do not fit together.
    """
    audited = read_bias_table(place, question, labelled=not four_fifths)
    if four_fifths:
        measures = measure_four_fifths(audited, question)
        document = four_fifths_document(audited.name, measures)
    else:
        measures = measure_bias(audited, question)
        document = bias_document(audited.name, measures, everything=everything)
    return document, measures, audited.messages


def measure_bias(audited: BiasTable, question: BiasQuestion) -> dict[str, Any]:
    """Every number of the command, with its n and interval or the reason why it has none.

    Args:
        audited: From `read_bias_table`.
        question: What is asked.

    Returns:
        `groups`, `subgroups`, `clarify` and `fairness`, rows that hold estimates.
    """
    classes, cluster = audited.pair.classes, audited.pair.examples.cluster
    models = {name: ids.shape[1] for name, ids in audited.populations.items()}
    rows = audited.pair.examples.size
    return {
        "examples": rows,
        "clusters": rows if cluster is None else int(cluster.max()) + 1,
        "models": models["predicted"],
        "baseline_models": models.get("baseline", 0),
        "paired": question.paired,
        "classes": classes,
        "positive": None if audited.positive is None else classes[audited.positive],
        "level": question.level,
        "groups": [
            {"group": name, "examples": int(mask.sum())}
            for name, mask in audited.groups.by_key.items()
        ],
        "subgroups": _subgroups(audited, question),
        "clarify": list(_clarify(audited, question)),
        "fairness": list(_fairness(audited, question)),
    }


def _subgroups(audited: BiasTable, question: BiasQuestion) -> list[dict[str, Any]]:
    from scotoma.bias import amplification, rates, selection_changes, selection_rates

    pair, positive = audited.pair, audited.positive
    names, masks = audited.groups.keys, audited.groups.masks
    own: dict[str, Any] = {"clusters": pair.examples.cluster, "level": question.level}
    known: dict[str, Any] = own | {"positive": positive, "n_classes": len(pair.classes)}
    after, paired = pair.compressed.predicted, question.paired
    if pair.dense is None:
        results: Sequence[Any] = rates(pair.labels, after, masks, names, **known)
        if positive is not None:
            chosen = selection_rates(after == positive, masks, names, **own)
            results = _with_selection(results, chosen)
        numbers_of = [{"predicted": one.rate} for one in results]
    else:
        before = pair.dense.predicted
        results = amplification(pair.labels, before, after, masks, names, paired=paired, **known)
        if positive is not None:
            results = _with_selection(results, selection_changes(
                before == positive, after == positive, masks, names, paired=paired, **own
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
            "class": None if one.class_id is None else pair.classes[one.class_id],
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

    outcome, pair = audited.positive, audited.pair
    chosen = {} if outcome is None else {
        name: ids == outcome for name, ids in audited.populations.items()
    }  # fmt: skip
    y = None if outcome is None else pair.labels == outcome
    before, after = chosen.get("baseline"), chosen.get("predicted")
    late = [name for name, metric in METRICS.items() if metric.stage == "post-training"]
    for facet in audited.facets:
        table = partial(
            all_metrics, d=facet.d, y=y, strata=audited.strata, features=audited.features,
            labels=pair.labels, clusters=pair.examples.cluster, level=question.level,
            seed=question.seed,
        )  # fmt: skip
        parts = {"predicted": table(p=after)}
        if before is not None and after is not None:
            parts["baseline"] = table(p=before, only=late)
            parts["change"] = metric_changes(
                d=facet.d, dense=before, compressed=after, y=y, strata=audited.strata,
                features=audited.features, clusters=pair.examples.cluster, paired=question.paired,
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

    pair, outcome = audited.pair, audited.positive
    labels, n_classes, clusters = pair.labels, len(pair.classes), pair.examples.cluster
    if outcome is not None:  # one class against the rest: the other classes need no counts apart
        labels, n_classes = (labels == outcome).astype(np.intp), 2
    for name, (values, codes) in audited.groups.coded.items():
        masks = codes == np.arange(len(values))[:, None]
        predictions = {
            part: ids if outcome is None else (ids == outcome).astype(np.intp)
            for part, ids in audited.populations.items()
        }
        bounds = {
            part: fairness_bounds(
                NAMES, labels, ids, masks, n_classes=n_classes,
                class_id=None if outcome is None else 1, clusters=clusters,
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
                        metric, labels, ids, masks, class_id=1, clusters=clusters,
                        level=question.level,
                    )  # fmt: skip
            yield row


Flags = npt.NDArray[np.bool_]


def measure_four_fifths(audited: BiasTable, question: BiasQuestion) -> dict[str, Any]:
    """The tables of the four-fifths rule: one a group column, and of all of them crossed.

    Args:
        audited: From `read_bias_table`.
        question: What is asked.

    Raises:
        ConfigError: No favourable outcome is named.
    """
    classes = audited.pair.classes
    if audited.positive is None:
        raise ConfigError(
            f"--four-fifths needs --positive, the label of those who are selected: name one of "
            f"{', '.join(map(quoted, classes[:8]))}"
        )
    return {
        "examples": audited.pair.examples.size,
        "positive": classes[audited.positive],
        "level": question.level,
        "tables": [
            _table(audited, question, names, masks, population, ids == audited.positive)
            for names, masks in audited.groups.apart().items()
            for population, ids in audited.populations.items()
        ],
    }


def _table(
    audited: BiasTable,
    question: BiasQuestion,
    names: tuple[str, ...],
    masks: dict[str, Flags],
    population: str,
    hits: Flags,
) -> dict[str, Any]:
    unknown = ~np.logical_or.reduce(list(masks.values()))
    rows = impact_ratios(hits, masks, clusters=audited.pair.examples.cluster, level=question.level)
    return {
        "columns": list(names),
        "models": population,
        "groups": [
            vars(row)
            | dict(zip(("standing", "certain"), standing(row.ratio), strict=True))
            | {"ratio": None if shown_ratio(row.ratio) is None else row.ratio}
            for row in rows
        ],
        "unknown": {
            "examples": int(unknown.sum()),
            "selected": float(hits[unknown].mean(axis=1).sum()),
        },
    }


def four_fifths_document(name: str, measures: dict[str, Any]) -> Document:
    """Lay out the tables.

    Args:
        name: What the table is called.
        measures: From `measure_four_fifths`.
    """
    return Document(
        f"{name}: {measures['examples']:,} examples, selected means "
        f"{quoted(measures['positive'])}, intervals {100 * measures['level']:g}%",
        "Ratio: a group's selection rate over that of the group selected most. Its interval treats "
        "that group as chosen beforehand. The rule of thumb asks for at least 4/5; a ratio below "
        "it is not a legal finding.",
        [Section(table["models"], "", parts=[_shown(table)]) for table in measures["tables"]],
    )


def _shown(table: dict[str, Any]) -> Table:
    whose = "" if table["models"] == "predicted" else ", baseline models"
    rows = [_row(row) for row in table["groups"]]
    n, selected = table["unknown"]["examples"], table["unknown"]["selected"]
    unknown = {"group": "unknown", "n": n, "selected": selected}
    unknown |= {"rate": selected / n, "standing": "in no ratio"} if n else {}
    return Table(
        f"{table['models']}-{'-'.join(table['columns'])}",
        f"{' and '.join(table['columns'])}{whose}",
        (
            Column("group", "group"),
            Column("n", "n", "count"),
            Column("selected", "selected", "count"),
            Column("rate", "rate", "rate"),
            Column("ratio", "ratio", "number"),
            Column("standing", ""),
        ),
        [*rows, unknown],
        known=FEW_RUNS,
    )


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    shown = "1" if one["standing"] == "highest" else one["ratio"]
    return {**one, "ratio": shown, "standing": STANDINGS[one["standing"], one["certain"]]}
