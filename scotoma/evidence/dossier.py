"""What does technical documentation say of testing? Annex IV, point 2(g), of the EU AI Act."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, StrictUndefined

from scotoma.audit import Audit
from scotoma.audit.gate import TestResult
from scotoma.audit.worst_change import gap_groups, turned_gaps
from scotoma.bias.clarify import METRICS
from scotoma.bias.four_fifths import STANDINGS, shown_ratio, standing
from scotoma.document import in_words
from scotoma.evidence.release import Release, measurements
from scotoma.printable import code_span, printable

SCOPES = {
    "population": "The verdict speaks of the variant's models and of the next one trained the same "
    "way.",
    "shipped": "The verdict speaks of the audited models themselves, not of the next training run.",
}


def dossier(release: Release) -> str:
    """Write what was tested, on which data, with what result and how sure, in nine sections.

    Args:
        release: The model and its audit.

    Returns:
        Markdown with tables; names are code, so that nothing in them is markup. The fields of the
        responsible person are left empty.
    """
    audit = release.audit
    template = Environment(  # Markdown: `code` and `text` keep names from being markup
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    ).from_string(resources.files("scotoma.evidence").joinpath("dossier.md").read_text("utf-8"))
    return template.render(
        release=release,
        scope=SCOPES[audit.scope],
        level=f"{100 * audit.level:g}%",
        rates=_rates(release),
        gaps=_gaps(audit, release.variant.name),
        outcomes=_outcomes(audit, release.variant.name),
        impact=_impact(audit, release.variant.name),
        robustness=_robustness(audit),
        code=code_span,
        text=_text,
        decided=_decided,
    )


def _rates(release: Release) -> list[dict[str, str]]:
    """Before, after and change of every rate of every group, a row each."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for one in measurements(release):
        row = rows.setdefault(
            (one.metric, one.group),
            {
                "metric": one.metric, "group_name": one.group_name, "n": f"{one.quantity.n:,}",
                "baseline": "", "compressed": "", "change": "",
            },
        )  # fmt: skip
        row[one.of] = _cell(in_words(one.quantity, "points" if one.of == "change" else "rate"))
    return list(rows.values())


def _gaps(audit: Audit, variant: str) -> list[dict[str, str]]:
    gaps = []
    for gap in turned_gaps(audit, variant):
        row, p, (more, less) = gap["gap"], gap["p_adjusted"].number.value, gap_groups(audit, gap)
        gaps.append(
            {
                "metric": row.metric or "",
                "more": more,
                "less": less,
                "gap": _cell(in_words(row.number, "points")),
                "n": f"{row.number.n:,}",
                "p": "not tested" if p is None else f"{p:.2g}",
            }
        )
    return gaps


def _outcomes(audit: Audit, variant: str) -> list[dict[str, str]]:
    return [
        {
            "metric": str(at["change"].metric),
            "disadvantaged": at["change"].fact("disadvantaged"),
            "advantaged": at["change"].fact("advantaged"),
            "neutral": f"{METRICS[str(at['change'].metric)].neutral:.6g}",
            "dense": _cell(in_words(at["dense"].number, "number")),
            "compressed": _cell(in_words(at["compressed"].number, "number")),
            "change": _cell(in_words(at["change"].number, "change")),
            "n": f"{at['change'].number.n:,}",
        }
        for at in audit.at("clarify", variant)
        if "change" in at and at["compressed"].number.value is not None
    ]


def _impact(audit: Audit, variant: str) -> dict[str, list[dict[str, str]]]:
    """Four-fifths tables: one an attribute, one an intersection."""
    names, tables = audit.group_names, dict[str, list[dict[str, str]]]()
    for at in audit.at("clarify", variant):
        if "ratio" not in at:
            continue
        ratio, group = at["ratio"].number, str(at["ratio"].group)
        tables.setdefault(at["ratio"].fact("attribute"), []).append(
            {
                "group": names.get(group, group),
                "n": f"{at['examples'].number.value:,.0f}",
                "rate": _cell(in_words(at["rate"].number, "rate")),
                "ratio": "" if shown_ratio(ratio) is None else _cell(in_words(ratio, "number")),
                "standing": STANDINGS[standing(ratio)],
            }
        )
    return tables


def _robustness(audit: Audit) -> str:
    if audit.robustness is None:
        return ""
    return (
        "Measured under corrupted pictures: `rows.robustness` in audit.json has accuracy by "
        "corruption and severity, for every group, with intervals."
    )


def _decided(test: TestResult) -> str:
    if test.decided_by is None:
        return _cell(test.reason or "nothing")
    by = test.decided_by
    if by.kind == "absolute":
        shown, margin = in_words(by.interval, "points"), f"{100 * by.margin:.2f} points"
    else:
        unit = "%" if by.kind == "relative" else ""
        shown, margin = f"{in_words(by.interval, 'number')}{unit}", f"{by.margin:.3g}{unit}"
    limit = "limit" if by.kind == "level" else "margin"
    return _cell(f"{shown}; {limit} {margin}; n {by.interval.n:,}")


def _text(sentence: str) -> str:
    """A sentence of the audit, which may hold hostile names: no markup, one line."""
    escaped = printable(sentence)
    for sign in "\\`*_[]<>|#&":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped


def _cell(text: str) -> str:
    return _text(text).replace("\\[", "[").replace("\\]", "]")
