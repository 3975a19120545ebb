"""`scotoma bias --four-fifths`: how often each group is selected beside the one selected most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.four_fifths import STANDINGS, ImpactRatio, impact_ratios
from scotoma.commands.bias.table import BiasQuestion, BiasTable
from scotoma.commands.shared.tables import aside, number, shown
from scotoma.document.lines import cropped_text, table_lines, wrapped
from scotoma.errors import ConfigError
from scotoma.numbers import FEW_RUNS
from scotoma.printable import quoted

__all__ = ["format_four_fifths", "measure_four_fifths"]

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
        "groups": [vars(row) for row in rows],
        "unknown": {
            "examples": int(unknown.sum()),
            "selected": float(hits[unknown].mean(axis=1).sum()),
        },
    }


def format_four_fifths(name: str, measures: dict[str, Any]) -> Iterator[str]:
    """Format the tables as lines of at most 80 columns.

    Args:
        name: What the table is called.
        measures: From `measure_four_fifths`.
    """
    yield cropped_text(
        f"{name}: {measures['examples']:,} examples, selected means "
        f"{quoted(measures['positive'])}, intervals {100 * measures['level']:g}%"
    )
    yield from wrapped(
        "Ratio: a group's selection rate over that of the group selected most. Its interval treats "
        "that group as chosen beforehand. The rule of thumb asks for at least 4/5; a ratio below "
        "it is not a legal finding."
    )
    for table in measures["tables"]:
        yield ""
        whose = "" if table["models"] == "predicted" else ", baseline models"
        yield cropped_text(f"{' and '.join(table['columns'])}{whose}")
        yield from table_lines(
            ["group", "n", "selected", "rate %", "ratio"],
            [*map(_cells, table["groups"]), _unknown(table["unknown"])],
            right=1,
        )


def _cells(row: dict[str, Any]) -> list[str]:
    one = ImpactRatio(**row)
    ratio = "" if one.ratio is None else shown(one.ratio)
    estimates = [one.rate] if one.ratio is None else [one.rate, one.ratio]
    notes = [STANDINGS[one.standing, one.certain], aside(estimates, *FEW_RUNS)]
    return [
        one.group,
        f"{one.n:,}",
        number(one.selected, 0 if one.selected == int(one.selected) else 1),
        shown(one.rate, factor=100, digits=2),
        "1" if one.standing == "highest" else ratio,
        "; ".join(filter(None, notes)),
    ]


def _unknown(unknown: dict[str, Any]) -> list[str]:
    n, selected = unknown["examples"], unknown["selected"]
    rate = f"{100 * selected / n:.1f}" if n else ""
    digits = 0 if selected == int(selected) else 1
    return ["unknown", f"{n:,}", number(selected, digits), rate, "", "in no ratio" if n else ""]
