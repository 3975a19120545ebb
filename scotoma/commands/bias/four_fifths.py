"""`scotoma bias --four-fifths`: how often each group is selected beside the one selected most."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.answers.values import MISSING
from scotoma.bias.four_fifths import STANDINGS, ImpactRatio, impact_ratios
from scotoma.commands.bias.table import BiasQuestion, BiasTable
from scotoma.commands.shared.tables import aside, number, shown
from scotoma.commands.shared.text_table import cropped_text, table_lines, wrapped
from scotoma.errors import ConfigError
from scotoma.group_keys import group_key
from scotoma.printable import quoted
from scotoma.uncertainty import FEW_RUNS

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
    if audited.positive is None:
        raise ConfigError(
            f"--four-fifths needs --positive, the label of those who are selected: name one of "
            f"{', '.join(map(quoted, audited.classes[:8]))}"
        )
    columns: list[tuple[str, ...]] = [(name,) for name in audited.values]
    columns += [tuple(audited.values)] if question.intersections and len(columns) > 1 else []
    models = {"baseline": audited.baseline, "predicted": audited.predicted}
    return {
        "examples": len(audited.labels),
        "positive": audited.classes[audited.positive],
        "level": question.level,
        "tables": [
            _table(audited, question, names, population, ids == audited.positive)
            for names in columns
            for population, ids in models.items()
            if ids is not None
        ],
    }


def _table(
    audited: BiasTable, question: BiasQuestion, names: tuple[str, ...], population: str, hits: Flags
) -> dict[str, Any]:
    known = np.ones(len(hits), np.bool_)
    masks: dict[str, Flags] = {}
    columns = []
    for name in names:
        values, codes = audited.values[name]
        known &= np.array([value != MISSING for value in values])[codes]
        columns.append([(name, v, codes == at) for at, v in enumerate(values) if v != MISSING])
    for parts in product(*columns):
        mask = np.logical_and.reduce([own for _, _, own in parts])
        if mask.any():
            masks[group_key([(name, value) for name, value, _ in parts])] = mask
    rows = impact_ratios(hits, masks, clusters=audited.clusters, level=question.level)
    return {
        "columns": list(names),
        "models": population,
        "groups": [vars(row) for row in rows],
        "unknown": {
            "examples": int((~known).sum()),
            "selected": float(hits[~known].mean(axis=1).sum()),
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
        "Ratio: selection rate over that of the group selected most, which its interval takes for "
        "chosen beforehand. The rule of thumb asks for 4/5; it is no finding of law."
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
