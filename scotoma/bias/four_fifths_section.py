"""How often is each group selected beside the group selected most: the four-fifths rule?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.four_fifths import STANDINGS, ImpactRatio, impact_ratios
from scotoma.bias.table import BiasQuestion, BiasTable
from scotoma.document import Column, Document, Section, Table
from scotoma.errors import ConfigError
from scotoma.numbers import FEW_RUNS
from scotoma.printable import quoted

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
        "groups": rows,
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


def _row(one: ImpactRatio) -> dict[str, Any]:
    first = "1" if one.standing == "highest" else one.ratio
    return vars(one) | {"ratio": first, "standing": STANDINGS[one.standing, one.certain]}
