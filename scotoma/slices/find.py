"""Find the slices on which a model, or the change from a dense to a compressed one, is worse."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.processes.machine import cores
from scotoma.slices.judging.choose import evidence_of
from scotoma.slices.judging.evidence import Evidence
from scotoma.slices.outcomes import none_at_risk, prepare_outcome
from scotoma.slices.report import ProgressCallback, SliceReport, View, leaks, report_of
from scotoma.slices.search.lattice import CELLS, KEYS, SPARSE, candidate_count, subset_count
from scotoma.slices.search.predicates import Encoded, encode
from scotoma.slices.search.strategies import SHARE, WITHOUT_BATCH, TableInMemory, split
from scotoma.slices.search.sweep import Budget, Hits, join_hits, keys_of, sweep
from scotoma.slices.settings import SearchSettings

POINTS = 2_000  # combinations that the lattice view shows
THREADS_PAY = 3 * 10**7  # rows times sets of features: for fewer, threads only wait for each other
KEY_BYTES = 16  # a row's cell under one subset, its copy and the product's own arrays
CLUSTER_BYTES = 56  # beyond that, where rows share clusters: the pair's number, order and sums


def find_slices(
    features: Any,
    outcome: npt.ArrayLike,
    settings: SearchSettings | None = None,
    *,
    baseline: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    ids: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    progress: ProgressCallback | None = None,
) -> SliceReport:
    """Find conjunctions of features where a metric is significantly worse.

    Args:
        features: A polars, pandas or Arrow table, or a mapping of columns; one row an example.
        outcome: One value an example, shape (N,), or one an example and member, shape (N, K). What
            it is depends on the metric: 0 or 1 for `error`, `accuracy`, `flip`; predicted classes
            for `error` and `accuracy` where `labels` are given; any score for `loss`, `taxicab`,
            `mean`; predictions 0 or 1 for `fpr`, `fnr`, `recall`, `precision`, `f1`; scores for
            `auc`.
        settings: All else that decides the search; None for the defaults.
        baseline: The same as `outcome` of the model (the dense population) to compare with.
        labels: True labels: classes for `error` and `accuracy`, 0 or 1 for the counts and `auc`.
        ids: Ids of the examples, integers or strings, unique; row numbers by default.
        clusters: Cluster of each example, integers or strings, where rows belong together, such as
            pictures of one person: halves, draws, permutations and variances are then of clusters,
            and rates are tested as means over clusters instead of exactly.
        progress: Called after each search with how many are done and how many there are: the
            search itself and one a permutation.

    Raises:
        DataError: Anything that cannot be searched, in one sentence.

    References:
        Liu et al. 2022, AutoSlicer: Scalable Automated Data Slicing for ML Model Analysis.

    >>> import numpy as np
    >>> colour = np.tile(["red", "green", "blue", "grey"], 200)
    >>> error = (np.arange(800) % 7 < 1) | ((colour == "blue") & (np.arange(800) % 3 > 0))
    >>> features = {"colour": colour, "size": np.arange(800) % 5}
    >>> report = find_slices(features, error, SearchSettings(permutations=2))
    >>> [(one.text, one.size) for one in report.slices]
    [('colour = blue', 200)]
    """
    asked = settings or SearchSettings()
    encoded = encode(features, max_categories=asked.max_categories, bins=asked.bins)
    total = encoded.codes.shape[1]
    prepared = prepare_outcome(
        asked.measured, outcome, baseline, labels, total, paired=asked.paired
    )
    if prepared.rows.size == 0:
        raise none_at_risk(asked.measured, total)
    names = _ids(ids, total)
    cluster_names = None if clusters is None else _names(clusters, "clusters", total)
    cluster_ids = (names if cluster_names is None else cluster_names)[prepared.rows]
    codes = None if cluster_names is None else np.unique(cluster_ids, return_inverse=True)[1]
    prepared = replace(prepared, clusters=codes)
    own = encoded if prepared.rows.size == total else encoded.take(prepared.rows)
    evidence = evidence_of(prepared, cluster_ids, asked)
    possible = candidate_count(own, asked.max_cross)
    asked.check_space(possible)
    if asked.mode == "priority" and asked.budget is None:
        large = possible > asked.max_candidates
        proposed = WITHOUT_BATCH if large else max(1, round(SHARE * possible))
        asked = asked.model_copy(update={"budget": proposed})
    table = TableInMemory(
        encoded=own, asked=asked, evidence=evidence, halves=split(cluster_ids, asked.seed),
        budget=_budget(own, evidence, asked, codes is not None),
    )  # fmt: skip
    shuffles = np.random.default_rng([asked.seed % 2**63, 2])
    view = View(encoded, evidence, names, asked.level, table.halves)
    facts = {
        "examples": total, "at_risk": int(prepared.rows.size), "members": prepared.model.members,
        "baseline_members": prepared.baseline.members if prepared.baseline else 0,
        "clusters": None if codes is None else int(codes.max(initial=-1)) + 1,
    }  # fmt: skip
    return report_of(
        table, lambda _: view, lambda _: replace(table, evidence=evidence.shuffled(shuffles)),
        possible, asked.as_dict(baseline=baseline is not None) | facts,
        (*encoded.notes, *leaks(own, prepared, labels)), partial(_lattice, table), progress,
    )  # fmt: skip


def _ids(ids: npt.ArrayLike | None, total: int) -> npt.NDArray[np.generic]:
    """Check the ids of the examples, row numbers by default; refuse ids that repeat."""
    if ids is None:
        return np.arange(total)
    names = _names(ids, "ids", total)
    values, counts = np.unique(names, return_counts=True)
    if values.size < total:
        raise DataError(
            f"ids must be unique, got {str(values[counts > 1][0])!r} {counts[counts > 1][0]} "
            "times: give every row an id of its own"
        )
    return names


def _names(values: npt.ArrayLike, argument: str, total: int) -> npt.NDArray[np.generic]:
    """Check integers or strings, one a row; refuse others by the name of the argument."""
    names = np.asarray(values)
    if names.dtype.kind == "O":
        names = names.astype(str)
    if names.shape != (total,) or names.dtype.kind not in "iuU":
        raise DataError(
            f"{argument} must give one integer or string a row, got {names.dtype} of shape "
            f"{names.shape} for {total:,} rows: leave {argument} out if every row is its own"
        )
    return names


def _lattice(table: TableInMemory, hits: Hits, reported: set[str]) -> pl.DataFrame:
    """Collect all single predicates, and the combinations with the smallest p-values."""
    encoded, rows = table.encoded, table.evidence.rows
    single = sweep(encoded, table.evidence, 1, table.asked.min_size, 1.0, table.budget)
    if table.asked.mode == "cover":
        hits = table.look(None, ())
    combined = hits.take(hits.cross > 1)
    combined = combined.take(np.argsort(combined.p, kind="stable")[:POINTS])
    points = join_hits([single, combined])
    text = [
        " and ".join(one.text for one in encoded.predicates_of(key))
        for key in keys_of(encoded, points)
    ]
    columns = {name: getattr(points, name) for name in ("cross", "size", "effect", "p")}
    return pl.DataFrame({"text": text, **columns}).select(
        "text", "cross", "size", support=pl.col("size") / max(rows, 1),
        effect="effect", p="p", reported=pl.col("text").is_in(sorted(reported)),
    )  # fmt: skip


def _budget(encoded: Encoded, evidence: Evidence, asked: SearchSettings, shared: bool) -> Budget:
    """Choose sizes of a block that keep within the memory; one feature subset must fit."""
    rows = encoded.codes.shape[1]
    work = rows * subset_count(len(encoded.predicates), asked.max_cross)
    threads = asked.threads or (cores() if work >= THREADS_PAY else 1)
    largest = int(np.prod(np.sort(encoded.sizes)[-asked.max_cross :].astype(object)))
    cells = min(largest, SPARSE * rows)
    key_bytes = KEY_BYTES + CLUSTER_BYTES * shared
    needed = (cells * evidence.lane.width * 8 + rows * key_bytes) / 2**30
    if needed > asked.memory_gib:
        raise DataError(
            f"memory_gib must hold the candidates of one set of features, got {asked.memory_gib:g} "
            f"for {needed:.2g} GiB: raise it, or lower max_categories or max_cross"
        )
    # Half for cells, half for keys; every thread has a block, and one more is made meanwhile.
    half = asked.memory_gib * 2**30 / 2 / (threads + (threads > 1))
    return Budget(
        cells=max(1, min(CELLS, int(half / (evidence.lane.width * 8)))),
        keys=max(1, min(KEYS, int(half / key_bytes))),
        threads=threads,
    )
