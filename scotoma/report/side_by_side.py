"""Two audits on one page: what each says of a variant, which verdicts and which rates changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.document.cells import Interval
from scotoma.numbers import Estimate, few_runs
from scotoma.report.overview import variant_rows
from scotoma.report.page import in_document
from scotoma.report.readable import with_group_names

__all__ = ["changed_verdicts", "side_by_side"]

WORDS = ("worse", "better", "undecided")


def changed_verdicts(
    first: GateResult | None,
    second: GateResult | None,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, str, str]]:
    """Name the variants whose verdict is another one, with the earlier and the later word.

    Args:
        first: The verdict on the earlier audit; None where nobody judged it.
        second: That on the later one.
        renamed: Variants of the earlier audit to what the later one calls them.
    """
    if first is None or second is None:
        return []
    later = {variant.name: variant.verdict for variant in second.variants}
    return [
        (", then ".join(dict.fromkeys((variant.name, name))), variant.verdict, later[name])
        for variant in first.variants
        if later.get(name := renamed.get(variant.name, variant.name), variant.verdict)
        != variant.verdict
    ]


def side_by_side(
    audits: tuple[Audit, Audit],
    gates: tuple[GateResult | None, GateResult | None],
    titles: tuple[str, str],
    rows: Sequence[Any],
    shared: int,
    notes: Sequence[str],
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Draw the page.

    Args:
        audits: The earlier audit and the later one.
        gates: The verdicts on them; None where nobody judged.
        titles: What they are called.
        rows: Every rate that was compared: `variant`, `metric` and `group`, the estimates `before`,
            `after` and `change`, and the `verdict` on it, `worse`, `better` or `undecided`.
        shared: Test examples that both have.
        notes: What to read with the rows.
        renamed: Variants of the earlier audit to what the later one calls them.
    """
    named = [with_group_names(audit) for audit in audits]
    first, second = (
        {row.variant: row for row in variant_rows(audit, gate)}
        for audit, gate in zip(named, gates, strict=True)
    )
    few = few_runs(min(variant.members for audit in audits for variant in audit.variants))
    for name, other in renamed.items():
        both = f"{name}, then {other}"
        first[both], second[both] = first.pop(name), second.pop(other)
    return in_document(
        "diff.html",
        {
            "audit": named[0],
            "titles": titles,
            "shared": shared,
            "labelled": all(audit.labelled for audit in named),
            "turned": changed_verdicts(*gates, renamed),
            "few_runs": f"{few.capitalize()}." if few else "",
            "variants": [(name, first.get(name), second.get(name)) for name in {**first, **second}],
            "by_verdict": [
                (word, [_shown(row, few) for row in rows if row.verdict == word]) for word in WORDS
            ],
            "tested": len(rows),
            "notes": notes,
        },
        [],
    )


def _shown(row: Any, said: str) -> dict[str, Any]:
    numbers = {part: _interval(getattr(row, part), said) for part in ("before", "after", "change")}
    return {"variant": row.variant, "metric": row.metric, "group": row.group, **numbers}


def _interval(estimate: Estimate, said: str) -> Interval:
    """An interval to print, without what the table says of all."""
    value, low, high = (
        None if math.isnan(number) else number
        for number in (estimate.value, estimate.low, estimate.high)
    )
    note = "; ".join(part for part in estimate.note.split("; ") if part and part != said)
    return Interval(value, low, high, estimate.n, estimate.reason, note)
