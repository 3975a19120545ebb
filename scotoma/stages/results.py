"""From numbers to audit.json, to MLflow, and how long it all took."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma import progress
from scotoma._version import __version__
from scotoma.config.retraining import Keep
from scotoma.datasets import Examples
from scotoma.divergence import hash_ids
from scotoma.errors import ScotomaError
from scotoma.jsonable import jsonable
from scotoma.machine import hardware, versions
from scotoma.predictions import Predictions
from scotoma.printable import printable
from scotoma.runs import Run, file_digest, read_json, write_json
from scotoma.stages.collapsed import collapsed
from scotoma.stages.few_runs import frontier, one_model
from scotoma.stages.measures import accuracy
from scotoma.uncertainty import holm

__all__ = ["assemble", "log"]

NOWHERE = (
    "a run in object storage has no mlflow.db beside it; set tracking.uri or MLFLOW_TRACKING_URI "
    "and repeat the command, or set tracking.uri to off"
)
GALLERY_PAIRS = 15  # CIEs shown a variant, each beside a non-CIE of its class


def assemble(run: Run, examples: Examples) -> dict[str, Any]:
    """Every number of the audit; nothing in it depends on the clock, the machine or a path."""
    config, test = run.config, examples.split("test")
    partition = test.partition()
    bias = read_json(run.section("bias"))
    variants = config.resolved_variants
    found = {
        "version": 1,
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
            "units": test.table.height if test.clusters is None else int(test.clusters.max()) + 1,
            "dataset_sha256": file_digest(run.examples),
            "classes": examples.classes,
            "positive": None if config.label.positive is None else str(config.label.positive),
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
            for variant in variants
        ],
        "accuracy": {
            variant.name: accuracy(test, Predictions.read(run.predictions(variant.name)))
            for variant in variants
        },
        "divergence": read_json(run.section("divergence")),
        "classes": bias["classes"],
        "subgroups": bias["subgroups"],
        "gaps": _adjusted(bias["gaps"]),
        "clarify": bias["clarify"],
        "slices": read_json(run.section("slices")),
        "one_model": one_model(run, test),
        "gallery": _gallery(run, test),
    }
    if lines := list(_collapsed(run, test)):
        found["collapsed"] = lines  # the gate warns of them; healthy audits keep their bytes
    plain: dict[str, Any] = jsonable(found)
    return plain


def _collapsed(run: Run, test: Examples) -> Iterator[str]:
    for variant in run.config.resolved_variants:
        yield from collapsed(Predictions.read(run.predictions(variant.name)), test.labels)


def _training_masks(examples: Examples, keys: tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    """The same groups among the training examples; a value that training lacks has none."""
    train = examples.split("train").partition()
    empty = np.zeros(train.masks.shape[1], dtype=bool)
    return [train.mask(key) if key in train.keys else empty for key in keys]


def _adjusted(gaps: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The gaps with p-values adjusted by Holm over all of the audit: one table, one family."""
    flat = [gap for rows in gaps.values() for gap in rows]
    p = np.array([np.nan if gap["p"] is None else gap["p"] for gap in flat], dtype=float)
    adjusted = iter(holm(p))
    return {
        name: [gap | {"p_adjusted": float(next(adjusted))} for gap in rows]
        for name, rows in gaps.items()
    }


def _gallery(run: Run, test: Examples) -> dict[str, list[dict[str, Any]]]:
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
    gallery: dict[str, list[dict[str, Any]]] = {}
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
                {
                    "cie": _card(exemplar, test.attributes),
                    "non_cie": None if partner is None else _card(partner, test.attributes),
                }
            )
        gallery[variant.name] = pairs
    return gallery


def _card(row: dict[str, Any], attributes: tuple[str, ...]) -> dict[str, Any]:
    shown = (
        "example_id",
        "label",
        "dense_modal",
        "dense_votes",
        "compressed_modal",
        "compressed_votes",
        "taxicab",
    )
    return {key: row[key] for key in shown} | {
        "attributes": {attribute: row[attribute] for attribute in attributes}
    }


def log(run: Run) -> list[Path]:
    """Log the audit to MLflow, and write down how long each step took, on what.

    One that passed is registered there, if the configuration names a model. What could not be
    logged, because a server is down, leaves the step unfinished: the next call logs it.
    """
    from scotoma.tracking import tracking_uri

    tracked, audit = run.path("tracking.json"), run.path("audit.json")
    measured = run.path("measurements.json")
    uri = tracking_uri(run, dict(os.environ))
    manifests = [
        run.population(variant.name) / "manifest.json" for variant in run.config.resolved_variants
    ]
    gate = run.section("verdict")
    inputs = [audit, gate, run.path("report.html"), *manifests]
    retraining = run.config.retraining
    made_with = "/".join(
        ["off" if uri is None else uri]
        + ([retraining.model, retraining.alias] if retraining and retraining.model else [])
    )
    with run.step("log", [tracked], inputs, made_with=made_with) as due:
        if due:
            progress.start("log to MLflow", 1)
            if uri is None:
                found = {"reason": "", "link": "", "runs": {}}
            elif not uri:
                found = {"reason": NOWHERE, "link": "", "runs": {}}
            else:
                found = _logged(run, read_json(audit), read_json(gate), uri)
            write_json(tracked, found)
            progress.advance("log to MLflow")
    run.fetch(tracked, *manifests)
    if read_json(tracked)["reason"]:
        run.forget("log")
    run.mirror.fetch_folder("steps")
    write_json(measured, _measurements(run))
    run.publish(measured)
    if retraining is not None:
        _tidy(run, retraining.keep, uri)
    return [tracked]


def _tidy(run: Run, keep: Keep, uri: str | None) -> None:
    """Let old audits beside this one give up what they need not keep; no audit fails by it."""
    from scotoma.stages.retention import tidy

    root = run.uri.rpartition("/")[0] if run.uri else str(run.root.parent)
    try:
        gone, notes = tidy(run.config.project, root, keep, uri, at_work=run.place)
    except ScotomaError as error:
        gone, notes = [], [str(error)]
    notes = [f"{one.place} gave up its models and predictions" for one in gone] + notes
    for note in notes:
        sys.stderr.write(f"keep    {printable(note)}\n")


def _logged(run: Run, audit: dict[str, Any], gate: dict[str, Any], uri: str) -> dict[str, Any]:
    """What MLflow now holds: runs, and the version of the model if the audit passed."""
    from scotoma.tracking import log_audit, register

    tracked, retraining = log_audit(run, audit, uri, gate=gate), run.config.retraining
    found: dict[str, Any] = jsonable(tracked)
    if tracked.reason or retraining is None or retraining.model is None:
        return found
    local = uri.startswith("sqlite:")  # others do not see it, nor this machine's folders
    place = run.uri or (str(run.root) if local else run.root.name)
    registered = register(
        gate, tracked.runs["dense"], place, retraining.model, retraining.alias, uri
    )
    return found | {"registered": jsonable(registered), "reason": registered.reason}


def _measurements(run: Run) -> dict[str, Any]:
    """Times, sizes and versions: what the promise of equal bytes does not cover."""
    run.fetch(run.costs, run.path("audit.json"), run.section("verdict"))
    costs = read_json(run.costs) if run.costs.exists() else {}
    return {
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": hardware(),
        "versions": versions(),
        "costs": costs,
        "frontier": frontier(
            read_json(run.path("audit.json")), read_json(run.section("verdict")), costs
        ),
        "time_s": {
            path.stem: read_json(path)["time_s"]
            for path in sorted(run.path("steps").glob("*.json"))
        },
        "bytes_per_member": {
            variant.name: _bytes_per_member(run, variant.name)
            for variant in run.config.resolved_variants
        },
    }


def _bytes_per_member(run: Run, variant: str) -> dict[str, Any]:
    """Mean size of the files of a population; of predictions made elsewhere there are none."""
    sizes = [member["bytes"] for member in _members(run, variant) if "bytes" in member]
    if not sizes:
        return {"mean": None, "n": 0, "reason": "the models were not taken in"}
    return {"mean": sum(sizes) / len(sizes), "n": len(sizes)}


def _members(run: Run, variant: str) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = read_json(run.population(variant) / "manifest.json")["members"]
    return members
