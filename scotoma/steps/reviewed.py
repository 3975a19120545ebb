"""`scotoma audit --step bias --labels reviewed`: measure again with corrected labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.audit import read_audit
from scotoma.audit.reviewed import (
    RecountedFlips,
    ReviewCounts,
    ReviewedAudit,
    ReviewedRate,
    ReviewedVariant,
)
from scotoma.commands.asking import Answer
from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.document import Document
from scotoma.errors import DataError
from scotoma.numbers.inputs import Labels
from scotoma.review.measure import FEWEST, corrected_change, drawn_prefix
from scotoma.review.section import recounted
from scotoma.review.verdicts import FILE, Review, last_reviews, read_reviews
from scotoma.run import Run, checksums, write_json
from scotoma.run.finished import open_run
from scotoma.steps.measures.pairs import (
    PopulationPair,
    comparisons,
    read_predictions,
    read_test_examples,
)
from scotoma.steps.review import lots_of
from scotoma.storage.files import file_digest

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
LEVEL = 0.95


def measure_reviewed(place: str) -> Answer:
    """Measure errors of groups again with the labels that people corrected.

    Args:
        place: Folder of a finished audit.

    Returns:
        What the page will show, the reviewed audit, and where that is.

    Raises:
        ScotomaError: The run has no reviews, or its examples have no labels.
    """
    run = open_run(place)
    run.fetch(run.path(FILE))
    rows = read_reviews(run.path(FILE))
    if not rows:
        raise DataError(
            f"{run.path(FILE)} holds no verdicts; make some with scotoma review {place}"
        )
    audit = run.path("audit.json")
    variants = [one.name for one in run.config.resolved_variants]
    run.fetch(audit, run.examples, *map(run.predictions, variants))
    if not audit.exists():
        raise DataError(f"{place} holds no finished audit; finish it first")
    checksums.refuse_changed(run.mirror, [audit.name, run.examples.name])
    examples = read_test_examples(run)
    if not examples.labelled:
        raise DataError(
            "the examples have no labels to correct; add those of scotoma review RUN --export "
            "labels to the source, and audit again"
        )
    last = last_reviews(rows)
    dense = read_predictions(run, "dense", examples)
    found = ReviewedAudit(
        audit_sha256=file_digest(audit),
        level=LEVEL,
        reviewers=tuple(sorted({row.by for row in last.values()})),
        variants=tuple(
            _variant(run, one, examples, last) for one in comparisons(run, examples, dense)
        ),
    )
    path = run.path("reviewed", "audit.json")
    write_json(path, found.model_dump(mode="json"))
    run.publish(path)
    names = read_audit(audit).group_names
    document = Document(place, sections=[recounted(found, names)])
    note = f"written to {run.mirror.place(path)}; scotoma show {place} shows it"
    return Answer(document, found.model_dump(mode="json"), notes=[note])


def _variant(
    run: Run, pair: PopulationPair, examples: AuditedExamples, last: dict[str, Review]
) -> ReviewedVariant:
    sides = pair.dense.predicted, pair.compressed.predicted
    scores = score(*sides, len(examples.classes))
    labels = examples.labels
    corrected, reviewed = _corrected(examples, last)
    lots = lots_of(run, examples.ids)
    drawn = np.zeros(len(labels), bool)
    counts = {}
    for name, own in (("changed", scores.cie), ("unchanged", ~scores.cie)):
        drawn[own] = drawn_prefix(reviewed[own], lots[own])
        counts[name] = ReviewCounts(
            examples=int(own.sum()),
            reviewed=int((own & reviewed).sum()),
            drawn=int((own & drawn).sum()),
            corrected=int((own & reviewed & (corrected != labels) & (corrected >= 0)).sum()),
            ambiguous=int((own & reviewed & (corrected < 0)).sum()),
        )
    flips = [
        _flips(scores.dense_modal, scores.compressed_modal, one, scores.cie & reviewed)
        for one in (labels, corrected)
    ]
    reason = " ".join(
        _too_few(name, counts[name]) for name in counts if _too_few(name, counts[name])
    )
    rates: list[ReviewedRate] = []
    if not reason:
        groups = examples.partition()
        only_drawn = np.where(drawn, corrected, labels)
        for key, mask in zip(groups.keys, groups.masks, strict=True):
            change = corrected_change(
                *sides, labels, only_drawn, drawn,
                scores.cie.astype(np.int64), mask, paired=pair.paired,
                clusters=examples.clusters, level=LEVEL,
            )  # fmt: skip
            wrong = [(one[mask] != labels[mask, None]).mean() for one in sides]
            rates.append(
                ReviewedRate(
                    group=key,
                    n=int(mask.sum()),
                    dense=None if change is None else change.dense,
                    compressed=None if change is None else change.compressed,
                    change=None if change is None else change.change,
                    low=None if change is None else change.low,
                    high=None if change is None else change.high,
                    before=float(wrong[1] - wrong[0]),
                    reason="no example has a right answer" if change is None else "",
                )
            )
    return ReviewedVariant(
        name=pair.compressed.variant,
        changed=counts["changed"],
        unchanged=counts["unchanged"],
        before=flips[0],
        after=flips[1],
        rates=tuple(rates),
        reason=reason,
    )


def _corrected(examples: AuditedExamples, last: dict[str, Review]) -> tuple[Ints, Flags]:
    """Class ids by review, -1 for no right answer, and which examples were reviewed."""
    place = {name: number for number, name in enumerate(examples.classes)}
    corrected, reviewed = examples.labels.copy(), np.zeros(len(examples.ids), bool)
    for row, example_id in enumerate(examples.ids):
        review = last.get(example_id)
        if review is None or review.verdict == "ignore":
            continue
        reviewed[row] = True
        if review.verdict == "ambiguous":
            corrected[row] = -1
        elif review.verdict == "label wrong":
            corrected[row] = place[review.label]
    return corrected, reviewed


def _flips(dense: Labels, compressed: Labels, labels: Ints, rows: Flags) -> RecountedFlips:
    right_before, right_after = dense == labels, compressed == labels
    answered = rows & (labels >= 0)
    return RecountedFlips(
        became_wrong=int((answered & right_before & ~right_after).sum()),
        became_right=int((answered & ~right_before & right_after).sum()),
        wrong_either_way=int((answered & ~right_before & ~right_after).sum()),
        no_answer=int((rows & (labels < 0)).sum()),
    )


def _too_few(name: str, counts: ReviewCounts) -> str:
    needed = min(FEWEST, counts.examples)
    if counts.drawn >= needed:
        return ""
    return (
        f"Rates need the first {needed:,} {name} examples of the random order reviewed without "
        f"leaving one out ({counts.drawn:,} now); other corrections would favour one model."
    )
