"""From the numbers of every step to audit.json."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from scotoma._version import __version__
from scotoma.audit import Audit, read_part
from scotoma.audit.divergence import Divergence
from scotoma.audit.document import VERSION, GalleryCard, GalleryPair
from scotoma.audit.groups import Gap, MeasuredGap
from scotoma.audit.sections import BiasSection
from scotoma.audit.slices import SliceSearch
from scotoma.datasets import Examples
from scotoma.divergence import hash_ids
from scotoma.jsonable import jsonable
from scotoma.predictions import Predictions
from scotoma.runs import Run, file_digest
from scotoma.stages.collapsed import collapsed
from scotoma.stages.few_runs import group_errors, one_model
from scotoma.stages.measures import accuracy
from scotoma.uncertainty import holm

__all__ = ["assemble"]

GALLERY_PAIRS = 15  # CIEs shown a variant, each beside a non-CIE of its class


def assemble(run: Run, examples: Examples) -> Audit:
    """Put every number of the audit together; none depends on the clock, machine or a path."""
    config, test = run.config, examples.split("test")
    partition = test.partition()
    positive = None if config.label.positive is None else str(config.label.positive)
    positive_id = None if positive is None else test.classes.index(positive)
    accuracies, errors = {}, {}
    warnings: list[str] = []
    for variant in config.resolved_variants:
        said = Predictions.read(run.predictions(variant.name))
        accuracies[variant.name] = accuracy(test, said)
        errors[variant.name] = group_errors(
            said.predicted, test.labels, partition.masks, positive_id
        )
        warnings += collapsed(said, test.labels)
    bias = read_part(run.section("bias"), BiasSection)
    content = {
        "version": VERSION,
        "scotoma": __version__,
        "project": config.project,
        "config_sha256": config.digest(),
        "deterministic": config.deterministic,
        "scope": "population" if config.population.models > 1 else "shipped",
        "seed": config.population.seed,
        "level": 0.95,
        "examples": {
            "train": examples.split("train").table.height,
            "test": test.table.height,
            "clusters": test.table.height
            if test.clusters is None
            else int(test.clusters.max()) + 1,
            "dataset_sha256": file_digest(run.examples),
            "classes": examples.classes,
            "positive": positive,
            "notes": examples.notes,
        },
        "groups": [
            {"key": key, "name": name, "n": int(mask.sum()), "train": int(trained.sum())}
            for key, name, mask, trained in zip(
                partition.keys,
                partition.names,
                partition.masks,
                _training_masks(examples, partition.keys),
                strict=True,
            )
        ],
        "variants": [
            {
                "name": variant.name,
                "kind": variant.kind,
                "sparsity": variant.sparsity,
                "mode": variant.mode,
                "bits": variant.bits,
                "paired": variant.paired,
                "derived_from": variant.derived_from or None,
                "members": config.population.models,
            }
            for variant in config.resolved_variants
        ],
        "accuracy": jsonable(accuracies),
        "divergence": read_part(run.section("divergence"), dict[str, Divergence]),
        "classes": bias.classes,
        "subgroups": bias.subgroups,
        "gaps": _adjusted(bias.gaps),
        "clarify": bias.clarify,
        "slices": read_part(run.section("slices"), dict[str, SliceSearch]),
        "one_model": jsonable(one_model(config, errors)),
        "gallery": _gallery(run, test),
        "collapsed": warnings,
    }
    return Audit.model_validate(content)


def _training_masks(examples: Examples, keys: tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    """The same groups among the training examples; a value that training lacks has none."""
    train = examples.split("train").partition()
    empty = np.zeros(train.masks.shape[1], dtype=bool)
    return [train.mask(key) if key in train.keys else empty for key in keys]


def _adjusted(gaps: dict[str, tuple[MeasuredGap, ...]]) -> dict[str, tuple[Gap, ...]]:
    """The gaps with p-values adjusted by Holm over all of the audit: one table, one family."""
    flat = [gap for rows in gaps.values() for gap in rows]
    p = np.array([np.nan if gap.p is None else gap.p for gap in flat], dtype=float)
    adjusted = iter(jsonable(holm(p)))
    return {
        name: tuple(Gap(**dict(gap), p_adjusted=next(adjusted)) for gap in rows)
        for name, rows in gaps.items()
    }


def _gallery(run: Run, test: Examples) -> dict[str, tuple[GalleryPair, ...]]:
    """The most divergent CIEs of every variant, each with a non-CIE of its class.

    Ties are broken by a hash of the example id, never by the order of rows.
    """
    scores = pl.read_parquet(run.path("divergence.parquet"), glob=False).join(
        test.table.select("example_id", "label", *test.attributes), on="example_id"
    )
    order = pl.DataFrame(
        {
            "example_id": test.ids,
            "lot": hash_ids(np.array(test.ids), run.config.population.seed).astype(np.uint64),
        }
    )
    scores = scores.join(order, on="example_id")
    gallery = {}
    for variant in run.config.resolved_variants[1:]:
        mine = scores.filter(pl.col("variant") == variant.name)
        exemplars = (
            mine.filter(pl.col("cie"))
            .sort(["taxicab", "lot"], descending=[True, False])
            .head(GALLERY_PAIRS)
        )
        others = mine.filter(~pl.col("cie")).sort("lot")
        pairs = []
        used: set[str] = set()
        for exemplar in exemplars.iter_rows(named=True):
            partner = next(
                (
                    row
                    for row in others.filter(pl.col("label") == exemplar["label"]).iter_rows(
                        named=True
                    )
                    if row["example_id"] not in used
                ),
                None,
            )
            if partner is not None:
                used.add(partner["example_id"])
            pairs.append(
                GalleryPair(
                    cie=_card(exemplar, test.attributes),
                    non_cie=None if partner is None else _card(partner, test.attributes),
                )
            )
        gallery[variant.name] = tuple(pairs)
    return gallery


def _card(row: dict[str, Any], attributes: tuple[str, ...]) -> GalleryCard:
    shown = (
        "example_id",
        "label",
        "dense_modal",
        "dense_votes",
        "compressed_modal",
        "compressed_votes",
        "taxicab",
    )
    return GalleryCard(
        **{key: row[key] for key in shown},
        attributes={attribute: row[attribute] for attribute in attributes},
    )
