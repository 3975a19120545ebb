"""Which slices were found, beside what the same search finds in noise? As a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scotoma.document import Cell, Column, Document, Section, Table, show
from scotoma.numbers import FEW_RUNS, FEWEST_RUNS
from scotoma.printable import quoted
from scotoma.slices.report import Slice, SliceReport, units_of
from scotoma.slices.search.strategies import half_size

EFFECTS = {
    ("rest", False): "{inside} minus that of all other examples",
    ("whole", False): "{inside} minus that of all examples",
    ("baseline", True): "{inside} minus the baseline's on the same examples",
    ("rest", True): "change from the baseline inside minus the change outside",
}
PUBLISHED = (
    "The published protocol takes p-values from a coarse bootstrap of slices of any size. Compare "
    "with what it finds in shuffled outcomes; do not act on these slices."
)


def search_document(name: str, report: SliceReport, notes: Sequence[str]) -> Document:
    """Lay out a report.

    Args:
        name: What the table is called.
        report: From `find_slices`; its slices are shown.
        notes: Sentences for the reader, the report's own among them.
    """
    settings = report.settings
    members, before = settings["members"], settings["baseline_members"]
    sentence = report.null.sentence()
    parts = [f"{settings['examples']:,} examples"]
    if settings["at_risk"] != settings["examples"]:
        parts.append(f"{settings['at_risk']:,} count for {settings['metric']}")
    models = f"{members:,} model{'s' * (members != 1)}"
    parts.append(models + (f" against {before:,}" if before else ""))
    if settings["paired"]:
        parts.append("paired")
    overall = show(report.overall, units_of(settings["metric"])[0], FEW_RUNS)
    parts.append(f"{settings['metric']} {overall}")
    few = min(members, before or members) < FEWEST_RUNS
    lead = "Few training runs: intervals cover another test set, not another training run."
    answer = [] if report.slices else [
        "No slice is significantly worse. Slices that are small, or only a little worse, may "
        "exist all the same."
    ]  # fmt: skip
    published = [PUBLISHED] if settings["protocol"] == "published" else []
    return Document(
        f"{name}: {', '.join(parts)}",
        lead if few else "",
        [
            Section("slices", "Slices", answer, [_table(report)] if report.slices else []),
            Section("null", "In noise", [f"{sentence[0].upper()}{sentence[1:]}.", *published]),
            Section("searched", "What was searched", list(_searched(report)), warnings=[
                f"{note}." for note in notes
            ]),
        ],
    )  # fmt: skip


def _table(report: SliceReport) -> Table:
    metric, change = units_of(report.settings["metric"])
    looks = {"p": "p"}
    if report.settings["confirm"]:
        looks = {"found": "p found", "again": "p again"}
    columns = (
        Column("place", "#", "count"), Column("n", "n", "count"),
        Column("inside", "inside", metric), Column("outside", "outside", metric),
        Column("effect", "effect, points" if change == "points" else "effect", change),
        *(Column(key, title, "p") for key, title in looks.items()), Column("q", "q", "p"),
        Column("slice", "where"),
    )  # fmt: skip
    rows = [_row(place, one) for place, one in enumerate(report.slices, 1)]
    more = report.slice_count - len(rows)
    said = [f"And {more:,} more: raise limit in --settings to see them."] if more else []
    note = " ".join([*said, *_legend(report)])
    return Table("slices", "", columns, rows, note, known=FEW_RUNS)


def _row(place: int, one: Slice) -> dict[str, Cell]:
    share = "under 0.1%" if one.support < 0.001 else f"{100 * one.support:.1f}%"
    return {
        "place": place, "n": one.inside.n, "inside": one.inside.value,
        "outside": one.outside.value, "effect": one.effect, "p": one.p, "found": one.discovery.p,
        "again": one.p, "q": one.q, "slice": f"{one.text} ({share} of the examples)",
    }  # fmt: skip


def _legend(report: SliceReport) -> Iterator[str]:
    settings = report.settings
    against = EFFECTS[settings["reference"], settings["baseline_members"] > 0]
    what = against.format(inside=f"{settings['metric']} inside")
    yield f"Effect: {what}, with its {100 * settings['level']:g}% interval."
    units = "clusters" if settings["clusters"] else "examples"
    yield f"n: {units} of the slice that the test and its interval rest on."
    if settings["mode"] == "cover" and report.slice_count > 1:
        yield "A slice is tested and measured on the examples that lie in no slice found before it."
    if settings["confirm"]:
        yield (
            "p found: in the half of the examples that proposed the slice. p again: in the other "
            "half, which decides; metric and effect are measured there. q: p again, corrected "
            "for all slices proposed."
        )
    elif settings["correction"] == "none":
        yield "q: p, not corrected."
    else:
        yield (
            f"q: p, corrected ({settings['correction']}) for all slices tested. Metric and effect "
            "are measured on the examples that chose the slice, which exaggerates them."
        )


def _searched(report: SliceReport) -> Iterator[str]:
    settings, features = report.settings, report.features
    together = settings["max_cross"]
    side = {"both": "different"}.get(settings["direction"], settings["direction"])
    confirm, alpha = settings["confirm"], f"at alpha {settings['alpha']:g}"
    least = half_size(settings["min_size"]) if confirm else settings["min_size"]
    size = f"at least {least:,} example{'s' * (least != 1)}"
    what = f"for {side} {settings['metric']}"
    yield (
        f"Searched ({settings['mode']}, {settings['protocol']}): {len(features)} "
        f"feature{'s' * (len(features) != 1)}, up to {together} "
        f"condition{'s' * (together != 1)} a slice."
    )
    yield f"Of {report.candidates:,} possible slices, " + (
        f"those with {size} in a half were tested there {what}, {alpha}: {report.tested:,} "
        f"test{'s' * (report.tested != 1)} in the two halves."
        if confirm
        else f"{report.tested:,} with {size} were tested {what}, {alpha}."
    )
    if report.iterations:
        yield (
            f"Candidates by iteration ({settings['order']} first, about {settings['budget']:,} "
            "that hold an example): "
            f"{', '.join(f'{one.candidates:,}' for one in report.iterations)}."
        )
    names = ", ".join(quoted(one)[1:-1] for one in features[:40])
    more = f" and {len(features) - 40:,} more" if len(features) > 40 else ""
    yield f"Features: {names}{more}."
