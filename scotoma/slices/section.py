"""Why did it change? The slices that nobody named, as a section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scotoma.audit import Audit
from scotoma.audit.base import At, Row
from scotoma.audit.divergence import FoundSlice
from scotoma.audit.findings import Findings
from scotoma.document import Cell, Chart, Column, Facts, Noted, Section, Table, Unit, show
from scotoma.document.cells import factor_of
from scotoma.numbers import FEW_RUNS

MOST_ROWS = 8  # slices on the page
MOST_DRAWN = 60  # candidates drawn of a variant: those reported, then by p
MOST_LISTED = 3
NAMED = 4  # reported slices whose names stand in the drawing


@dataclass(frozen=True)
class _Effect:
    """What a search looks for, in words and units."""

    title: str
    unit: Unit
    caption: str
    what: str
    note: str = ""


def slices_section(findings: Findings) -> Section | None:
    """Slices that each search reports, and all candidates as points; None without a search."""
    audit = findings.audit
    if not audit.slices:
        return None
    names = [variant.name for variant in audit.compressed if variant.name in audit.slices]
    names.sort(key=lambda name: name != findings.focus)
    effect = _effect(audit)
    confirmed = bool(audit.slices[names[0]].settings.get("confirm", True))
    said = _said(audit, names)
    table = _reported(audit, names, effect, confirmed=confirmed)
    chart = _candidates(audit, names, effect)
    return Section(
        "slices",
        "Why? Slices nobody named",
        [
            f"Combinations of attributes, image statistics or other features on which "
            f"{effect.what}.",
            "Half of the examples propose each slice and the other half tests it: rise, interval "
            "and q come from that half."
            if confirmed
            else "The examples that chose a slice also test it, which exaggerates its rise; the "
            "gate does not judge these slices.",
            "{}: {}".format(*said[0]),
        ],
        [
            *([table] if table.rows else []),
            *([Facts(said[1:])] if said[1:] else []),
            *([chart] if chart.table.rows else []),
        ],
        link="Why",
    )


def _effect(audit: Audit) -> _Effect:
    if audit.scores is not None:
        unit = f", {audit.scores.unit}" if audit.scores.unit else ""
        return _Effect(
            f"Change of the mean{unit}",
            "score_change",
            "Slices on which the mean gets worse",
            "the mean gets worse",
        )
    if audit.labelled:
        return _Effect(
            "Rise, points",
            "points",
            "Slices on which the error rose",
            f"a variant errs more than {audit.dense.name}",
        )
    return _Effect(
        "Rise, points",
        "points",
        "Slices on which more labels change",
        "more labels change than elsewhere",
        "Rise: share of labels that change on the slice less that on all other examples.",
    )


def _said(audit: Audit, names: list[str]) -> list[tuple[str, str]]:
    """What each search says, those that say the same in one line."""
    by_words: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        search = audit.slices[name]
        by_words.setdefault((search.summary, *search.notes), []).append(name)
    return [
        (", ".join(same), " ".join(f"{text[:1].upper()}{text[1:]}." for text in words))
        for words, same in by_words.items()
    ]


def _reported(audit: Audit, names: list[str], effect: _Effect, *, confirmed: bool) -> Table:
    """The slices of all variants; those of the first variant stand on the page."""
    tests = (
        (Column("p", "p, first half", "p"), Column("p_confirmed", "p, second half", "p"))
        if confirmed
        else (Column("p", "p", "p"),)
    )
    family = "proposed" if confirmed else "tested"
    found = sum(audit.slices[name].slice_count for name in names)
    rows = [
        _row(name, one, found_at) for name in names for one, found_at in found_slices(audit, name)
    ]
    cut = f" The audit found {found:,}; those with the smallest q are listed."
    return Table(
        "slices",
        effect.caption,
        (
            Column("variant", "Variant"),
            Column("slice", "Slice"),
            Column("examples", "Examples", "count"),
            Column("rise", effect.title, effect.unit, drawn=True),
            Column("n", "n", "count"),
            *tests,
            Column("q", "q", "p"),
        ),
        rows,
        f"{effect.note} q: p corrected for all slices {family}.{cut * (found > len(rows))}".strip(),
        stub=2,
        known=FEW_RUNS,
        most=MOST_ROWS,
    )


def found_slices(audit: Audit, variant: str) -> list[tuple[FoundSlice, At]]:
    """The slices that a search reports, each with its rows."""
    ats = audit.at("slices", variant, "slices.")
    return list(zip(audit.slices[variant].slices, ats, strict=True))


def _row(variant: str, one: FoundSlice, at: At) -> dict[str, Cell]:
    about = "; ".join(f"{name} is the {text}" for name, text in sorted(one.about_images.items()))
    return {
        "variant": variant,
        "slice": Noted(one.text, f"about the image: {about}") if about else one.text,
        "examples": one.size,
        "rise": at["effect"].number,
        "n": at["effect"].number.n,
        "p": at["discovery.p"].number.value,
        "p_confirmed": at["confirmation.p"].number.value if "confirmation.p" in at else None,
        "q": corrected_p(at),
    }


def corrected_p(at: At) -> float | None:
    """The p-value that decided on a slice, corrected: that of the half which did not choose it."""
    decided = at.get("confirmation.q") or at["discovery.q"]
    return decided.number.value


def _candidates(audit: Audit, names: list[str], effect: _Effect) -> Chart:
    """Every candidate by its size and its rise; of those reported, the rise that was confirmed."""
    table = Table(
        "candidates",
        "Slices with the smallest p",
        (
            Column("variant", "Variant"),
            Column("slice", "Slice"),
            Column("reported", "Reported"),
            Column("examples", "Examples", "count"),
            Column("support", "Share of the examples", "rate"),
            Column("rise", effect.title, effect.unit),
            Column("p", "p", "p"),
        ),
        [row for name in names for row in _points(audit, name, factor_of(effect.unit))],
        "The rise of a slice that is not reported is that of all its examples, without interval; p "
        "is uncorrected.",
        stub=2,
        most=MOST_LISTED,
    )
    changes = [
        f"{name} {show(change.number, effect.unit)}"
        for name in names[:1]
        for change in _changes(audit, name)
    ]
    return Chart(
        "slices",
        f"Slices by their size and their rise{effect.title.removeprefix('Rise')}"
        if effect.unit == "points"
        else f"Slices by their size: {effect.title}",
        "Diamonds: reported, with their intervals. Rings: tested, not reported."
        + "".join(f" Dashed: all examples, of {one}." for one in changes),
        table,
        "slices",
        by="variant",
    )


def _changes(audit: Audit, variant: str) -> list[Row]:
    """How far all examples rise; nothing where that is undefined."""
    rows = audit.numbers("slices", variant)
    return [row for row in rows if row.what == "change" and row.number.value is not None]


def _points(audit: Audit, variant: str, factor: float) -> Iterator[dict[str, Cell]]:
    effects = {one.text: at["effect"].number for one, at in found_slices(audit, variant)}
    drawn = audit.slices[variant].lattice
    change = next((row.number.value for row in _changes(audit, variant)), None)
    places = [place for place, rise in enumerate(drawn.effect) if rise is not None]
    places.sort(key=lambda i: (not drawn.reported[i], _p(drawn.p[i]), drawn.text[i]))
    for rank, i in enumerate(places[:MOST_DRAWN]):
        text = drawn.text[i]
        yield {
            "variant": variant,
            "slice": text,
            "reported": "yes" if drawn.reported[i] else "no",
            "examples": drawn.size[i],
            "support": drawn.support[i],
            "rise": effects.get(text, drawn.effect[i]) if drawn.reported[i] else drawn.effect[i],
            "p": drawn.p[i],
            "named": text if drawn.reported[i] and rank < NAMED else None,
            "all": None if change is None else factor * change,
        }


def _p(value: float | None) -> float:
    return 1.0 if value is None else value
