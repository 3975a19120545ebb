"""Serve the changed examples of a run, lay out what people said, and measure with their labels."""

from __future__ import annotations

import getpass
import secrets
import sys
from typing import Any

import numpy as np
import polars as pl

from scotoma.audit import read_audit
from scotoma.audit.findings import (
    RecountedFlips,
    ReviewCounts,
    ReviewedAudit,
    ReviewedRate,
    ReviewedVariant,
)
from scotoma.commands.asking import Answer
from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.document import Document, Table
from scotoma.errors import DataError
from scotoma.numbers.inputs import Flags, Ints, Labels
from scotoma.printable import printable
from scotoma.review.choose import divergence_of
from scotoma.review.measure import FEWEST, GroupErrors, corrected_change, drawn_prefix
from scotoma.review.section import recounted
from scotoma.review.verdicts import FILE, Review, last_reviews, open_reviews, read_reviews
from scotoma.run import Run, write_json
from scotoma.run.finished import compressed_variant, open_run, require_files
from scotoma.slices.hashing import hash_ids
from scotoma.steps.inputs import compared_texts
from scotoma.steps.measures.pairs import (
    PopulationPair,
    comparisons,
    measure_inputs,
    read_predictions,
    read_test_examples,
)
from scotoma.steps.report import images_of
from scotoma.storage.files import file_digest

MOST = 5_000  # changed examples of a variant on the page, by either order
AS_SCORED = (
    "example_id", "variant", "label", "dense_modal", "dense_votes", "compressed_modal",
    "compressed_votes",
)  # fmt: skip
SALT = 33  # apart from the lots of other commands


def lots_of(run: Run, ids: list[str]) -> Any:
    """A random number of each example: the order in which random samples are reviewed."""
    return hash_ids(np.array(ids, str), run.config.population.seed + SALT)


def serve_review(run: Run, variant: str | None, unchanged: int, reviewer: str, port: int) -> None:
    """Serve the changed examples of a variant until interrupted.

    Raises:
        ScotomaError: The run, the variant or the port cannot be used.
    """
    from scotoma.review.server import review_app, serve
    from scotoma.study.pictures import displayed

    name = compressed_variant(run, variant).name
    scores, test = _scores(run, name)
    cards = _cards(run, scores, test, name, unchanged)
    who = reviewer or getpass.getuser()
    about = {
        "project": run.config.project,
        "variant": name,
        "classes": list(test.classes),
        "labelled": test.labelled,
        "changed": int(scores["cie"].sum()),
        "unchanged": int((~scores["cie"]).sum()),
        "dense_members": run.config.models_of("dense"),
        "compressed_members": run.config.models_of(name),
        "reviewer": printable(who),
    }
    token = secrets.token_urlsafe(32)

    def image(example_id: str) -> bytes:
        data = images_of(run, [example_id]).get(example_id, b"")
        return displayed(data, example_id) if data else b""

    def tell(address: str) -> None:
        sys.stdout.write(f"review {name} at {address}/#{token}\n")
        sys.stdout.flush()

    with open_reviews(run) as reviews:
        app = review_app(cards, about, reviews, image, token=token, reviewer=printable(who))
        serve(app, port, tell)


def exported_reviews(run: Run, variant: str | None, what: str) -> Table:
    """Lay out reviewed labels, or what to review next.

    Args:
        run: A finished audit.
        variant: Of `to-label`; None for the first.
        what: `labels` or `to-label`.
    """
    run.fetch(run.path(FILE))
    last = last_reviews(read_reviews(run.path(FILE)))
    scores, test = _scores(run, compressed_variant(run, variant).name)
    if what != "labels":
        table = _most_changed(scores.filter(~pl.col("example_id").is_in(list(last))))
        shown = table.select("example_id", "dense_modal", "compressed_modal", "taxicab")
        return Table.of_frame(shown)
    own = {"label": "given_label"} if test.labelled else {}
    given = test.table.select("example_id", *own).rename(own)
    names = ("example_id", "verdict", "label", "comment", "by", "at")
    table = pl.DataFrame(
        [[getattr(one, name) for name in names] for one in last.values()],
        schema=dict.fromkeys(names, pl.String), orient="row",
    ).rename({"label": "corrected_label"})  # fmt: skip
    return Table.of_frame(table.join(given, on="example_id", how="left", maintain_order="left"))


def _most_changed(scores: pl.DataFrame) -> pl.DataFrame:
    """The changed examples, the most changed first."""
    return scores.filter("cie").sort(["taxicab", "lot"], descending=[True, False])


def _scores(run: Run, variant: str) -> tuple[pl.DataFrame, AuditedExamples]:
    """The scores of a variant with lots and ranks, and the test examples without images."""
    every, test = divergence_of(run)
    scores = every.filter(variant=variant)
    lots = pl.Series("lot", lots_of(run, scores["example_id"].to_list()).astype("uint64"))
    return scores.with_columns(lots), test


def _cards(
    run: Run, scores: pl.DataFrame, test: AuditedExamples, variant: str, unchanged: int
) -> list[dict[str, Any]]:
    """What the page shows of changed examples, and of a random sample of the others."""
    changed = _most_changed(scores)
    shown = pl.concat(
        [
            changed.head(MOST),
            changed.sort("lot").head(MOST),
            scores.filter(~pl.col("cie")).sort("lot").head(unchanged),
        ]
    ).unique("example_id", maintain_order=True)
    label = [pl.col("label")] if test.labelled else [pl.lit(None, pl.String).alias("label")]
    facts = test.table.select(
        "example_id", *label, pl.struct(*test.attributes).alias("attributes")
        if test.attributes else pl.lit(None).alias("attributes"),
    )  # fmt: skip
    schema = pl.read_parquet_schema(run.examples)
    pictured = "image" in schema or "image_name" in schema
    texts = compared_texts(run)
    by_lot = {one: rank for rank, one in enumerate(shown.sort("lot")["example_id"])}
    cards = []
    joined = shown.join(facts, on="example_id", maintain_order="left")
    for place, row in enumerate(joined.iter_rows(named=True)):
        name = row["example_id"]
        cards.append(
            {key: row[key] for key in AS_SCORED}
            | {
                "place": place,
                "kind": "changed" if row["cie"] else "unchanged",
                "direction": _direction(row),
                "attributes": row["attributes"] or {},
                "rank": place,
                "lot": by_lot[name],
                "pictured": pictured,
                "texts": [list(one) for one in texts.get((variant, name), ()) if one[1]],
            }
        )
    return cards


def _direction(row: dict[str, Any]) -> str:
    if not row["cie"]:
        return "unchanged"
    if row["label"] is None:
        return "no_label"
    if row["dense_modal"] == row["label"]:
        return "became_wrong"
    return "became_right" if row["compressed_modal"] == row["label"] else "wrong_either_way"


LEVEL = 0.95
NUMBERS = GroupErrors.__dataclass_fields__


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
    require_files(run, audit, *measure_inputs(run))
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
    before, after = (
        _flips(scores.dense_modal, scores.compressed_modal, one, scores.cie & reviewed)
        for one in (labels, corrected)
    )
    reason = " ".join(filter(None, (_too_few(name, own) for name, own in counts.items())))
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
            numbers: dict[str, Any] = vars(change) if change else dict.fromkeys(NUMBERS)
            reason_of_group = "" if change else "no example has a right answer"
            before_review = float(wrong[1] - wrong[0])
            rates.append(
                ReviewedRate(
                    group=key, n=int(mask.sum()), before=before_review, reason=reason_of_group,
                    **numbers,
                )
            )  # fmt: skip
    return ReviewedVariant(
        name=pair.compressed.variant,
        changed=counts["changed"],
        unchanged=counts["unchanged"],
        before=before,
        after=after,
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
