"""What does a model's page on a hub show? A section for its card, and `.eval_results` entries."""

from __future__ import annotations

from typing import Any

from scotoma.evidence.release import Measurement, Release, measurements
from scotoma.printable import code_span
from scotoma.report.model_card import model_card

__all__ = ["card_section", "eval_results"]


def card_section(release: Release) -> str:
    """Write the section of a model card about this model: the audit's table, bound to the file.

    Args:
        release: The model and its audit.

    Returns:
        Markdown in which names are code, so that nothing in them is markup.
    """
    model = release.model
    return (
        f"{model_card(release.audit, release.gate)}\n"
        f"This model: {code_span(model.name)}, variant {code_span(release.variant.name)}, "
        f"SHA-256 `{model.sha256}`. {release.binding} Verdict of the variant: "
        f"{release.judged.verdict} ({release.day}); audit.json has SHA-256 "
        f"`{release.audit_sha256}`.\n"
    )


def eval_results(release: Release, dataset: str) -> list[dict[str, Any]]:
    """List accuracy and error rates as entries of `.eval_results/*.yaml`.

    Args:
        release: The model and its audit.
        dataset: Id of the data on the hub, `ORGANISATION/NAME`.

    Returns:
        An entry for each defined number of the variant itself; baseline and changes are no scores
        of this model. Interval and n stand in `notes`, for which the format has no other place.
    """
    return [
        {
            "dataset": {"id": dataset, "task_id": _task(row)},
            "value": row.quantity.value,
            "date": release.day,
            "notes": _notes(row),
        }
        for row in measurements(release)
        if row.of == "compressed" and row.quantity.value is not None
    ]


def _task(row: Measurement) -> str:
    return f"{row.metric.replace(' ', '_')}/{row.group}"


def _notes(row: Measurement) -> str:
    quantity = row.quantity
    if quantity.low is None or quantity.high is None:
        return f"n {quantity.n:,}; {quantity.reason}"
    return (
        f"{100 * quantity.level:g}% interval [{quantity.low:.6g}, {quantity.high:.6g}], "
        f"n {quantity.n:,}, {quantity.members:,} model{'s' * (quantity.members != 1)}"
    )
