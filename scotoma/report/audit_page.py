"""The page of an audit: its sections in order, one file without network, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scotoma.audit import Audit, GateResult
from scotoma.audit.findings import Beside, Findings, in_focus
from scotoma.bias.section import clarify_section, unanswered_section
from scotoma.costs.section import frontier_section
from scotoma.detection.section import precision_section
from scotoma.divergence.gallery_section import gallery_section
from scotoma.divergence.layers_section import layers_section
from scotoma.divergence.parity_section import parity_section
from scotoma.divergence.section import flips_section, topline_section
from scotoma.document import Document, Section, Table, show
from scotoma.document.html import html_page
from scotoma.impact.classes_section import classes_section
from scotoma.impact.groups_section import groups_section
from scotoma.impact.labels_section import labels_section
from scotoma.impact.scores_section import examples_section, means_section, quantiles_section
from scotoma.report.about import glossary_section, methods_section
from scotoma.review.section import reviewed_section
from scotoma.robustness.section import robustness_section
from scotoma.runs.seeds_section import seeds_section
from scotoma.slices.section import slices_section
from scotoma.study.section import study_section
from scotoma.verdict.gate_section import gate_section
from scotoma.verdict.section import verdict_section

TABLES = "tables"  # folder of a run that holds the CSV files
Make = Callable[[Findings], Section | None]

BEFORE: tuple[Make, ...] = (
    verdict_section,
    groups_section,
    means_section,
    unanswered_section,
    examples_section,
)
AFTER: tuple[Make, ...] = (
    slices_section,
    glossary_section,
    gate_section,
    quantiles_section,
    layers_section,
    topline_section,
    flips_section,
    labels_section,
    precision_section,
    classes_section,
    robustness_section,
    clarify_section,
    seeds_section,
    study_section,
    reviewed_section,
    frontier_section,
    parity_section,
    methods_section,
)


def audit_document(
    audit: Audit,
    gate: GateResult | None = None,
    beside: Beside | None = None,
    images: Mapping[str, bytes] | None = None,
    remark: str = "",
) -> Document:
    """Everything that an audit says, as a document.

    Args:
        audit: The audit.
        gate: The verdict on it; None shows none.
        beside: What stands beside the audit; None shows nothing of it.
        images: Encoded PNG, JPEG, GIF or WebP images by example id, for the gallery.
        remark: A sentence about the images.
    """
    findings = Findings(audit, gate, in_focus(audit, gate).name, beside or Beside())
    made = [one(findings) for one in BEFORE]
    made.append(gallery_section(findings, images or {}, remark))
    made += [one(findings) for one in AFTER]
    return Document(
        f"{audit.project}: what compression changed",
        _lead(audit),
        [section for section in made if section is not None],
        "Scotoma audit of scores" if audit.scores else "Scotoma audit",
    )


def _lead(audit: Audit) -> str:
    variants, dense, examples = len(audit.compressed), audit.dense.members, audit.examples
    text = (
        f"{variants} compressed variant{'' if variants == 1 else 's'} beside {dense} dense "
        f"model{'' if dense == 1 else 's'}, on "
    )
    test = show(examples.test).value
    if audit.labels is not None:
        each = show(len(audit.labels.names)).value
        text += f"{show(audit.labels.examples).value} test examples with {each} labels each, "
        text += f"{test} pairs."
    elif examples.clusters != examples.test:
        text += f"{test} test examples in {show(examples.clusters).value} clusters."
    else:
        text += f"{test} test examples."
    if audit.scores is not None:
        unit = f" in {audit.scores.unit}" if audit.scores.unit else ""
        better = "lower" if audit.scores.lower_is_better else "higher"
        text += f" The score is {audit.scores.name}{unit}; {better} is better."
    return text


def csv_tables(document: Document) -> dict[str, Table]:
    """The tables of a document by the names of their CSV files in the run's folder."""
    return {f"{TABLES}/{table.id}.csv": table for table in document.tables() if table.rows}


def render(document: Document, *, linked: bool = True) -> str:
    """Render an audit's document as one HTML file.

    Names of classes, groups, examples and of the project are shown as text, whatever they hold.
    The page's own policy allows its style sheets and scripts, each by its hash, and images inside
    the page; nothing in it evaluates text as code.

    Args:
        document: From `audit_document`.
        linked: Whether the CSV files of its tables lie beside the page.

    Returns:
        The page; equal inputs give equal text, whatever the order of their keys.
    """
    files = {table.id: name for name, table in csv_tables(document).items()}
    return html_page(document, files if linked else {})
