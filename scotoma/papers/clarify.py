"""What would SageMaker Clarify's 21 metrics, in the order of its paper, say about my run?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from scotoma.audit import Quantity
from scotoma.audit.base import At, Row
from scotoma.bias.clarify import METRICS
from scotoma.document import Section, show
from scotoma.papers.table import paper_table, printed, specification
from scotoma.papers.words import quantity_text
from scotoma.predictions.finished import FinishedAudit
from scotoma.printable import code_span
from scotoma.published import PublishedCell, PublishedTable, load

ADULT = "Paper, worked example: UCI Adult, women (d) against men (a), as printed"
SIGNS = {"SD", "DRR", "DCR", "TE"}  # printed with the sign of another formula
WAYS = {
    "label.positive": "name the favourable outcome",
    "a second attribute": "add it to groups",
    "clarify.features": "name columns of numbers",
}
FACETLESS = "GE"
NEEDS = "not computed (needs "  # how a reason begins that names a key of the configuration
EXPECTED = 0.05  # share of 95% intervals that exclude a change of 0 where there is none


def tables(finished: FinishedAudit) -> list[Section]:
    """Make a table of each question of the paper from a run."""
    return [_table(finished, question) for question in specification("clarify")]


def _table(finished: FinishedAudit, question: str) -> Section:
    names = specification("clarify")[question]["metrics"]
    pretraining = question.startswith("Pretraining")
    columns, rows = (_labels if pretraining else _predictions)(finished, names)
    reasons = _reasons(rows)
    found: dict[str, tuple[PublishedCell, ...]] = {
        name: (load("clarify").metrics.get(name),) for name in names
    }
    beside = [printed(ADULT, PublishedTable(("printed",), found), "metric")]
    if all(quantity.value is None for own in rows.values() for quantity in own):
        absent = "; ".join(reasons) or "no groups; name attributes as groups and audit again"
        return paper_table("clarify", question, missing=absent, beside=beside)
    about = "labels of both splits" if pretraining else "predictions for the test examples"
    return paper_table(
        "clarify",
        question,
        [(name, d, *(one.value for one in own)) for (name, d), own in rows.items()],
        caption=f"This run: {about}, d the disadvantaged facet",
        columns=("metric", "d", *columns),
        absent="; ".join(reasons),
        beside=beside,
        conclusion=_of_labels(rows) if pretraining else _of_changes(finished, names),
        notes=[*_signs(names)],
    )


Split = Literal["training", "test"]
Rows = dict[tuple[str, str], tuple[Quantity, ...]]


def _labels(finished: FinishedAudit, names: Iterable[str]) -> tuple[tuple[str, ...], Rows]:
    """The splits, and by metric and facet the values of each."""
    splits: tuple[Split, ...] = ("training", "test")
    by_place = {
        (row.metric, _d(row), row.fact("split")): row.number
        for row in finished.audit.numbers("clarify")
        if row.what == "labels"
    }
    facets = dict.fromkeys(d for _, d, _ in by_place)
    return splits, {
        (name, d): tuple(by_place[name, d, split] for split in splits)
        for name in names
        for d in facets
    }


def _predictions(finished: FinishedAudit, names: Iterable[str]) -> tuple[tuple[str, ...], Rows]:
    """The variants, dense first, and by metric and facet the values of each."""
    changes = _changes(finished)
    measured = tuple(dict.fromkeys(str(at["change"].variant) for at in changes))
    by_place = {(at["change"].metric, _d(at["change"]), at["change"].variant): at for at in changes}
    facets = dict.fromkeys(d for _, d, _ in by_place)
    rows: Rows = {}
    for name in names:
        for d in list(facets)[:1] if name == FACETLESS else facets:
            own = [by_place[name, d, variant] for variant in measured]
            whom = "all" if name == FACETLESS else d
            before = own[0]["dense"].number
            rows[name, whom] = (before, *(at["compressed"].number for at in own))
    return ("dense", *measured), rows


def _changes(finished: FinishedAudit) -> list[At]:
    """Metrics of predictions, dense beside compressed."""
    return [at for at in finished.audit.at("clarify") if "change" in at]


def _d(row: Row) -> str:
    """Name facet d; where it is all other values, by the advantaged one."""
    d = str(row.fact("disadvantaged"))
    return d if d.startswith(f"{row.fact('attribute')}=") else f"not {row.fact('advantaged')}"


def _of_labels(rows: Rows) -> str:
    """Say which intervals of the training labels, else of the test labels, exclude no bias."""
    basic = next(iter(rows))[0]
    at = 0 if any(own[0].value is not None for own in rows.values()) else 1
    sentences = [
        f"{name} of {code_span(d)} {quantity_text(own[at], 'number')}"
        for (name, d), own in rows.items()
        if name == basic and own[at].value is not None
    ]
    signed = [(name, own[at]) for (name, _), own in rows.items() if own[at].low is not None]
    beyond = [name for name, quantity in signed if _excludes(quantity, METRICS[name].neutral)]
    split = ("training", "test")[at]
    if not METRICS[basic].sign.startswith("+"):
        return (
            f"chance alone lifts distances above 0; of the {split} labels: {'; '.join(sentences)}."
        )
    return (
        f"of the {split} labels: {'; '.join(sentences)}; {len(beyond)} of {len(signed)} intervals "
        "exclude no bias."
    )


def _of_changes(finished: FinishedAudit, names: tuple[str, ...]) -> str:
    """Say which metrics compression moves."""
    changes = [
        (f"{name} of {code_span(_d(row))} under {row.variant}", row.number)
        for name in names
        for row in (at["change"] for at in _changes(finished))
        if row.metric == name and None not in (row.number.value, row.number.low)
    ]
    moved = [(where, change) for where, change in changes if _excludes(change, 0.0)]
    moved.sort(key=lambda one: _clear(one[1]), reverse=True)
    count = (
        f"{len(moved)} of {len(changes)} intervals of changes from dense exclude 0, where chance "
        f"alone gives about {show(EXPECTED * len(changes), 'count').value} (not adjusted)"
    )
    if not moved:
        return f"{count}."
    where, change = moved[0]
    return f"{count}; the clearest: {where} {quantity_text(change, 'change')}."


def _excludes(quantity: Quantity, value: float) -> bool:
    if quantity.low is None or quantity.high is None:
        return False
    return not quantity.low <= value <= quantity.high


def _clear(quantity: Quantity) -> float:
    """Relate a change to the width of its interval."""
    return abs(quantity.value or 0.0) / ((quantity.high or 0.0) - (quantity.low or 0.0))


def _signs(names: Iterable[str]) -> Iterator[str]:
    if slips := [name for name in names if name in SIGNS]:
        signs = "; ".join(f"{name}: {METRICS[name].formula}" for name in slips)
        yield f"The paper's signs follow more than one formula; the run's follow {signs}."


def _reasons(rows: Rows) -> list[str]:
    """Say of the metrics without a number what they need, and the way to it."""
    names: dict[str, dict[str, None]] = {}
    for (name, _), own in rows.items():
        for quantity in own:
            if quantity.value is None:
                names.setdefault(quantity.reason, {})[name] = None
    return [_way(reason, list(own)) for reason, own in names.items()]


def _way(reason: str, names: list[str]) -> str:
    if not reason.startswith(NEEDS):
        return f"{', '.join(names)}: {reason}"
    needs = reason.removeprefix(NEEDS).removesuffix(")")
    ways = " and ".join(way for need, way in WAYS.items() if need in needs)
    return f"{', '.join(names)} need{'s' * (len(names) == 1)} {needs}; {ways} and audit again"
