"""`scotoma audit --step bias --labels reviewed`: measure again with corrected labels."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from scotoma.audit.reviewed import (
    RecountedFlips,
    ReviewCounts,
    ReviewedAudit,
    ReviewedRate,
    ReviewedVariant,
)
from scotoma.commands.asking import print_out
from scotoma.commands.review.run import lots_of
from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.document import Cell, Column, Interval, Table
from scotoma.document.text import text_table
from scotoma.errors import DataError
from scotoma.numbers.inputs import Labels
from scotoma.printable import printable
from scotoma.review.measure import FEWEST, corrected_change, drawn_prefix
from scotoma.review.verdicts import FILE, Review, last_reviews, read_reviews
from scotoma.run import Run, checksums, write_json
from scotoma.run.finished import open_run
from scotoma.steps.measures.pairs import (
    PopulationPair,
    comparisons,
    read_predictions,
    read_test_examples,
)
from scotoma.storage.files import file_digest

__all__ = ["measure_reviewed"]

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
LEVEL = 0.95


def measure_reviewed(place: str, *, as_json: bool, quiet: bool) -> None:
    """Measure errors of groups again with the labels that people corrected.

    Args:
        place: Folder of a finished audit.
        as_json: Print reviewed/audit.json instead of tables.
        quiet: No messages.

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
    names = [one.name for one in run.config.resolved_variants]
    run.fetch(audit, run.examples, *map(run.predictions, names))
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
    variants = [_variant(run, one, examples, last) for one in comparisons(run, examples, dense)]
    found = ReviewedAudit(
        audit_sha256=file_digest(audit),
        level=LEVEL,
        reviewers=tuple(sorted({row.by for row in last.values()})),
        variants=tuple(variants),
    )
    path = run.path("reviewed", "audit.json")
    write_json(path, found.model_dump(mode="json"))
    run.publish(path)
    if as_json:
        print_out(path.read_text(encoding="utf-8"), sys.stdout)
    else:
        print_out("\n".join(_lines(found)) + "\n", sys.stdout)
    if not quiet:
        sys.stderr.write(f"written to {run.mirror.place(path)}; scotoma show {place} shows it\n")


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


def _lines(found: ReviewedAudit) -> list[str]:
    lines = []
    for one in found.variants:
        before, after = one.before, one.after
        lines += [
            f"{printable(one.name)}: {one.changed.reviewed:,} of {one.changed.examples:,} changed "
            f"examples reviewed, {one.changed.corrected:,} labels corrected, "
            f"{one.changed.ambiguous:,} ambiguous",
            f"  became wrong {before.became_wrong:,} -> {after.became_wrong:,}, became right "
            f"{before.became_right:,} -> {after.became_right:,}, no right answer "
            f"{after.no_answer:,}",
        ]
        if one.reason:
            lines += [f"  {one.reason}", ""]
            continue
        rows: list[dict[str, Cell]] = [
            {"group": rate.group, "n": rate.n, "before": rate.before,
             "after": Interval(rate.change, rate.low, rate.high, rate.n, rate.reason)}
            for rate in one.rates
        ]  # fmt: skip
        columns = [
            Column("group", "group"), Column("n", "n", "count"),
            Column("before", "points before", "points"),
            Column("after", "corrected [95%]", "points"),
        ]  # fmt: skip
        table = Table("rates", "", columns, rows)
        lines += ["  change of the error:", *text_table(table), ""]
    return lines[:-1] if lines and not lines[-1] else lines
