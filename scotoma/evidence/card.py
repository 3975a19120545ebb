"""What does a model's page on a hub show? A section for its card."""

from __future__ import annotations

from scotoma.evidence.release import Release
from scotoma.printable import code_span
from scotoma.report.model_card import model_card


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
