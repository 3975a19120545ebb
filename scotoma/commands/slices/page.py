"""How does `scotoma slices` print slices, the null and the search in 80 columns?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scotoma.commands.shared.tables import aside, number, shown
from scotoma.document.lines import table_rows, wrapped
from scotoma.numbers import FEW_RUNS, FEWEST_RUNS
from scotoma.printable import quoted
from scotoma.slices import Slice, SliceReport
from scotoma.slices.outcomes import SLICE_METRICS
from scotoma.slices.search.cover import half_size

SMALLEST = 1e-99
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


def format_slices(
    name: str, report: SliceReport, notes: Sequence[str], limit: int
) -> Iterator[str]:
    """Format a report as lines of at most 80 columns.

    Args:
        name: What the table is called.
        report: From `find_slices`.
        notes: Sentences for the reader, the report's own among them.
        limit: Number of slices to print.
    """
    yield from _head(name, report)
    yield ""
    if report.slices:
        printed = report.slices[:limit]
        yield from _table(report, printed)
        more = report.slice_count - len(printed)
        if more:
            yield f"  and {more:,} more: raise --limit to see them"
        yield ""
        yield from _legend(report)
    else:
        yield from wrapped(
            "No slice is significantly worse. Slices that are small, or only a little worse, may "
            "exist all the same."
        )
    yield ""
    sentence = report.null.sentence()
    yield from wrapped(f"{sentence[0].upper()}{sentence[1:]}.")
    if report.settings["protocol"] == "published":
        yield from wrapped(PUBLISHED)
    yield ""
    yield from _searched(report)
    if notes:
        yield ""
    for note in notes:
        yield from wrapped(f"! {note}.", later="  ")


def _head(name: str, report: SliceReport) -> Iterator[str]:
    settings = report.settings
    members, before = settings["members"], settings["baseline_members"]
    parts = [f"{settings['examples']:,} examples"]
    if settings["at_risk"] != settings["examples"]:
        parts.append(f"{settings['at_risk']:,} count for {settings['metric']}")
    models = f"{members:,} model{'s' * (members != 1)}"
    parts.append(models + (f" against {before:,}" if before else ""))
    if settings["paired"]:
        parts.append("paired")
    parts.append(f"{settings['metric']} {_value(report)}")
    yield from wrapped(f"{name}: {', '.join(parts)}")
    if min(members, before or members) < FEWEST_RUNS:
        yield from wrapped(
            "Few training runs: intervals cover another test set, not another training run."
        )


def _percent(report: SliceReport) -> bool:
    return SLICE_METRICS[report.settings["metric"]].kind in ("rate", "ratio")


def _value(report: SliceReport) -> str:
    if _percent(report):
        return f"{shown(report.overall, factor=100, digits=2)} (%)"
    return shown(report.overall, significant=True)


def _table(report: SliceReport, slices: Sequence[Slice]) -> Iterator[str]:
    for digits, gap in ((3, 2), (2, 2), (2, 1)):
        cells = [(*_cells(report, one, digits), "") for one in slices]
        header, *rows = table_rows(_titles(report), cells, right=0, gap=gap, indent=2)
        if all(len(lines) == 1 for lines in rows):
            break
    yield from header
    for one, lines in zip(slices, rows, strict=True):
        yield from wrapped(f"{one.text} ({_share(one.support)} of the examples)", later="    ")
        yield from lines
        if remark := aside([one.inside, one.effect], *FEW_RUNS):
            yield from wrapped(remark, first="    ", later="    ")


def _share(share: float) -> str:
    return "under 0.1%" if share < 0.001 else f"{100 * share:.1f}%"


def _titles(report: SliceReport) -> list[str]:
    unit = " %" if _percent(report) else ""
    effect = "effect, points" if unit else "effect"
    looks = ["p found", "p again"] if report.settings["confirm"] else ["p"]
    return ["n", f"inside{unit}", f"outside{unit}", effect, *looks, "q"]


def _cells(report: SliceReport, one: Slice, digits: int) -> list[str]:
    if _percent(report):
        metric = [number(100 * x.value, 2) for x in (one.inside, one.outside)]
        effect = shown(one.effect, factor=100, digits=digits - 1, sign="+")
    else:
        metric = [number(x.value, digits, significant=True) for x in (one.inside, one.outside)]
        effect = shown(one.effect, digits=digits, sign="+", significant=True)
    looks = [one.p]
    if one.confirmation is not None:
        looks = [one.discovery.p, one.confirmation.p]
    return [f"{one.inside.n:,}", *metric, effect, *map(_p, looks), _p(one.q)]


def _p(value: float) -> str:
    """Round p to two digits where they decide, to its power of ten where it is small."""
    if value < SMALLEST:
        return f"<{SMALLEST:.0e}"
    return f"{value:.2g}" if value >= 0.001 else f"{value:.0e}"


def _legend(report: SliceReport) -> Iterator[str]:
    settings = report.settings
    against = EFFECTS[settings["reference"], settings["baseline_members"] > 0]
    what = against.format(inside=f"{settings['metric']} inside")
    level = f"{100 * settings['level']:g}%"
    yield from wrapped(f"effect: {what}, with its {level} interval.")
    units = "clusters" if settings["clusters"] else "examples"
    yield from wrapped(f"n: {units} of the slice that the test and its interval rest on.")
    if settings["mode"] == "cover" and report.slice_count > 1:
        yield from wrapped(
            "A slice is tested and measured on the examples that lie in no slice found before it."
        )
    if settings["confirm"]:
        yield from wrapped(
            "p found: in the half of the examples that proposed the slice. p again: in the other "
            "half, which decides; metric and effect are measured there. q: p again, corrected "
            "for all slices proposed."
        )
    elif settings["correction"] == "none":
        yield from wrapped("q: p, not corrected.")
    else:
        yield from wrapped(
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
    yield from wrapped(
        f"Searched ({settings['mode']}, {settings['protocol']}): {len(features)} "
        f"feature{'s' * (len(features) != 1)}, up to {together} "
        f"condition{'s' * (together != 1)} a slice. Of {report.candidates:,} possible slices, "
        + (
            f"those with {size} in a half were tested there {what}, {alpha}: {report.tested:,} "
            f"test{'s' * (report.tested != 1)} in the two halves."
            if confirm
            else f"{report.tested:,} with {size} were tested {what}, {alpha}."
        )
    )
    if report.iterations:
        most, order = settings["budget"], settings["order"]
        yield from wrapped(
            f"Candidates by iteration ({order} first, about {most:,} that hold an example): "
            f"{', '.join(f'{one.candidates:,}' for one in report.iterations)}."
        )
    names = ", ".join(quoted(one)[1:-1] for one in features[:40])
    more = f" and {len(features) - 40:,} more" if len(features) > 40 else ""
    yield from wrapped(f"Features: {names}{more}.", later="  ")
