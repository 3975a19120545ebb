"""Serve the changed examples of a run, and lay out what people said of them."""

from __future__ import annotations

import getpass
import secrets
import sys
from typing import Any

import numpy as np
import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.document import Table
from scotoma.printable import printable
from scotoma.review.choose import divergence_of
from scotoma.review.verdicts import FILE, last_reviews, open_reviews, read_reviews
from scotoma.run import Run
from scotoma.run.finished import compressed_variant
from scotoma.slices.hashing import hash_ids
from scotoma.steps.inputs import compared_texts
from scotoma.steps.report import images_of

MOST = 5_000  # changed examples of a variant on the page, by either order
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
    name = compressed_variant(run, variant).name
    scores, test = _scores(run, name)
    if what == "labels":
        own = {"given_label": test.table["label"]} if test.labelled else {}
        given = test.table.select("example_id").with_columns(**own)
        table = pl.DataFrame(
            [(r.example_id, r.verdict, r.label, r.comment, r.by, r.at) for r in last.values()],
            schema=dict.fromkeys(
                ("example_id", "verdict", "corrected_label", "comment", "by", "at"), pl.String
            ),
            orient="row",
        ).join(given, on="example_id", how="left", maintain_order="left")
    else:
        table = (
            scores.filter(pl.col("cie") & ~pl.col("example_id").is_in(list(last)))
            .sort(["taxicab", "lot"], descending=[True, False])
            .select("example_id", "dense_modal", "compressed_modal", "taxicab")
        )
    return Table.of_frame(table)


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
    changed = scores.filter("cie")
    shown = pl.concat(
        [
            changed.sort(["taxicab", "lot"], descending=[True, False]).head(MOST),
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
        cards.append(
            {
                "place": place,
                "example_id": row["example_id"],
                "variant": variant,
                "kind": "changed" if row["cie"] else "unchanged",
                "direction": _direction(row),
                "label": row["label"],
                "dense_modal": row["dense_modal"],
                "dense_votes": row["dense_votes"],
                "compressed_modal": row["compressed_modal"],
                "compressed_votes": row["compressed_votes"],
                "attributes": row["attributes"] or {},
                "rank": place,
                "lot": by_lot[row["example_id"]],
                "pictured": pictured,
                "texts": [
                    list(one) for one in texts.get((variant, row["example_id"]), ()) if one[1]
                ],
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
