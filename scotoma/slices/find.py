"""Find the slices on which a model, or the change from a dense to a compressed one, is worse."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import StatisticsProtocol
from scotoma.machine import cores
from scotoma.slices.arguments import (
    check_choices,
    check_numbers,
    check_space,
    ids_of,
    names_of,
    resolve_settings,
)
from scotoma.slices.evidence.interface import Direction, Evidence
from scotoma.slices.evidence.outcomes import metric_named, prepare_outcome
from scotoma.slices.judging.correction import Correction
from scotoma.slices.judging.protocols import Reference, evidence_of
from scotoma.slices.notes import harm_everywhere, leaks
from scotoma.slices.null import Null, ProgressCallback
from scotoma.slices.report import Lattice, SliceReport
from scotoma.slices.search.greedy import key_of
from scotoma.slices.search.lattice import CELLS, KEYS, SPARSE, candidates, subset_count
from scotoma.slices.search.predicates import Encoded, encode
from scotoma.slices.search.priority import SHARE, WITHOUT_BATCH, Order
from scotoma.slices.search.strategies import Mode, SearchPlan, search_in_memory, split
from scotoma.slices.search.sweep import Budget, Hits, join_hits, sweep
from scotoma.slices.view import View

POINTS = 2_000  # combinations that the lattice view shows
THREADS_PAY = 3 * 10**7  # rows times sets of features: for fewer, threads only wait for each other
KEY_BYTES = 16  # a row's cell under one subset, its copy and the product's own arrays
CLUSTER_BYTES = 56  # beyond that, where rows share clusters: the pair's number, order and sums


def find_slices(
    features: Any,
    outcome: npt.ArrayLike,
    *,
    baseline: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    mode: Mode = "cover",
    metric: str = "error",
    direction: Direction | None = None,
    reference: Reference | None = None,
    paired: bool = False,
    max_cross: int = 3,
    min_size: int | None = None,
    alpha: float | None = None,
    correction: Correction | None = None,
    bootstrap: int | None = None,
    protocol: StatisticsProtocol = "sound",
    confirm: bool = True,
    permutations: int = 20,
    max_categories: int = 100,
    bins: int = 10,
    budget: int | None = None,
    iterations: int = 5,
    order: Order = "p-value",
    ids: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    limit: int = 1000,
    max_candidates: int = 10**8,
    memory_gib: float = 1.0,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    seed: int = 0,
) -> SliceReport:
    """Find conjunctions of features where a metric is significantly worse.

    Args:
        features: A polars, pandas or Arrow table, or a mapping of columns; one row an example.
        outcome: One value an example, shape (N,), or one an example and member, shape (N, K). What
            it is depends on the metric: 0 or 1 for `error`, `accuracy`, `flip`; predicted classes
            for `error` and `accuracy` where `labels` are given; any score for `loss`, `taxicab`,
            `mean`; predictions 0 or 1 for `fpr`, `fnr`, `recall`, `precision`, `f1`; scores for
            `auc`.
        baseline: The same of the model (the dense population) to compare with.
        labels: True labels: classes for `error` and `accuracy`, 0 or 1 for the counts and `auc`.
        mode: `cover`: the most significant slice, then the most significant of the rows it leaves,
            and so on. `batch`: all significant slices that lie below no other. `iterative`: the
            same without children of significant or too small slices. `priority`: children of the
            slices with the smallest p-values first, within a budget.
        metric: See `outcome`.
        direction: `higher`, `lower` or `both`; by default the metric's worse side.
        reference: What a slice is compared with: the `rest` of the examples, the `whole`
            (published protocol, AUC), or the `baseline` on the same slice, which is the default
            where there is one. A `baseline` with `rest` asks where the change is worse than
            elsewhere.
        paired: Member m of the outcome derives from member m of the baseline.
        max_cross: Largest number of predicates in a slice, 1 to 4.
        min_size: Smallest slice, in examples that count; 30 (published: 1).
        alpha: Level of the corrected p-values; 0.05 (published: 0.01).
        correction: Over all candidates tested: `bh`, `by`, `holm`, `bonferroni` or `none`; `bh`
            (published: `none`).
        bootstrap: Draws, where the bootstrap serves: 200 (published: 20).
        protocol: `published` for the rules of Liu et al. 2022; `sound` otherwise.
        confirm: In cover mode: each half of the examples proposes slices, the other half decides.
        permutations: Searches of shuffled outcomes whose findings are printed beside the result;
            each costs about as much as the search itself.
        max_categories: Values of a column with a predicate of their own, 1 to 250.
        bins: Bins of a numeric column, 2 to 250.
        budget: In priority mode: candidates an iteration; 12% of all, or 2,500 where `batch` would
            exceed `max_candidates`.
        iterations: In priority mode.
        order: In priority mode: whose children are visited first. `p-value`: those of the smallest;
            `breadth-first`: of the fewest predicates; `random`.
        ids: Ids of the examples, integers or strings, unique; row numbers by default.
        clusters: Cluster of each example, integers or strings, where rows belong together, such as
            pictures of one person: halves, draws, permutations and variances are then of clusters,
            and rates are tested as means over clusters instead of exactly.
        level: Coverage of the intervals, a fraction in (0, 1).
        limit: Slices that the report describes, the most significant first.
        max_candidates: Refuse searches with more candidates than this, save in priority mode.
        memory_gib: Bound on what the search holds at once beyond the data.
        threads: Blocks of candidates that are counted side by side; by default one a core in
            searches large enough to gain by it. No result depends on it.
        progress: Called after each search with how many are done and how many there are: the
            search itself and one a permutation.
        seed: Seed of halves, draws and permutations.

    Raises:
        DataError: Anything that cannot be searched, in one sentence.

    References:
        Liu et al. 2022, AutoSlicer: Scalable Automated Data Slicing for ML Model Analysis.

    >>> import numpy as np
    >>> colour = np.tile(["red", "green", "blue", "grey"], 200)
    >>> error = (np.arange(800) % 7 < 1) | ((colour == "blue") & (np.arange(800) % 3 > 0))
    >>> report = find_slices({"colour": colour, "size": np.arange(800) % 5}, error, permutations=2)
    >>> [(one.text, one.size) for one in report.slices]
    [('colour = blue', 200)]
    """
    settings = resolve_settings(
        mode=mode, metric=metric, direction=direction, reference=reference, paired=paired,
        protocol=protocol, max_cross=max_cross, min_size=min_size, alpha=alpha,
        correction=correction, bootstrap=bootstrap, level=level, confirm=confirm,
        permutations=permutations, seed=seed, max_categories=max_categories, bins=bins,
        compared=baseline is not None,
    )  # fmt: skip
    check_choices(order=order)
    check_numbers(
        iterations=iterations, limit=limit, budget=budget, memory_gib=memory_gib, threads=threads
    )
    encoded = encode(features, max_categories=max_categories, bins=bins)
    total = encoded.codes.shape[1]
    prepared = prepare_outcome(
        metric_named(metric), outcome, baseline, labels, total, paired=paired
    )
    names = ids_of(ids, total)
    cluster_names = None if clusters is None else names_of(clusters, "clusters", total)
    cluster_ids = (names if cluster_names is None else cluster_names)[prepared.rows]
    codes = None if cluster_names is None else np.unique(cluster_ids, return_inverse=True)[1]
    own = encoded if prepared.rows.size == total else encoded.take(prepared.rows)
    evidence = evidence_of(
        prepared, cluster_ids, protocol=settings.protocol, reference=settings.reference,
        direction=settings.direction, min_size=settings.min_size, draws=settings.bootstrap,
        seed=seed, clusters=codes,
    )  # fmt: skip
    possible, threads = candidates(own, max_cross), threads or _threads(own, max_cross)
    check_space(mode, possible, max_candidates)
    plan = SearchPlan(
        mode, max_cross, float(settings.alpha), settings.correction, confirm,
        _per_iteration(budget, possible, max_candidates), iterations,
        _budget(own, evidence, max_cross, memory_gib, threads, codes is not None), order, seed,
    )  # fmt: skip
    halves = split(cluster_ids, seed)
    findings, hits, visits = search_in_memory(own, evidence, plan, halves)
    shuffles = np.random.default_rng([seed % 2**63, 2])

    def count(number: int) -> int:
        return len(search_in_memory(own, evidence.shuffled(shuffles), plan, halves)[0])

    null = Null.of(count, permutations, progress)
    view = View(encoded, prepared, evidence, names, level, halves, codes)
    priority = mode == "priority"
    facts = {
        "examples": total, "at_risk": int(prepared.rows.size), "members": prepared.model.members,
        "baseline_members": prepared.baseline.members if prepared.baseline else 0,
        "budget": plan.candidates if priority else None,
        "iterations": iterations if priority else None,
        "order": order if priority else None,
        "clusters": None if codes is None else int(codes.max(initial=-1)) + 1,
    }  # fmt: skip
    return SliceReport.of(
        findings, hits, view, limit=limit, null=null, candidates=possible,
        settings=vars(settings) | facts,
        notes=(*encoded.notes, *leaks(own, prepared, labels), *harm_everywhere(view, settings)),
        lattice_of=partial(_lattice, own, evidence, plan, hits), iterations=visits,
    )  # fmt: skip


def _lattice(
    encoded: Encoded, evidence: Evidence, plan: SearchPlan, hits: Hits, reported: set[str]
) -> Lattice:
    """Collect all single predicates, and the combinations with the smallest p-values."""
    single = sweep(encoded, evidence, 1, 1.0, plan.budget)
    if plan.mode == "cover":
        hits = sweep(encoded, evidence, plan.max_cross, plan.alpha, plan.budget)
    combined = hits.take(hits.cross > 1)
    combined = combined.take(np.argsort(combined.p, kind="stable")[:POINTS])
    points = join_hits([single, combined])
    keys = [key_of(encoded, points, place) for place in range(points.p.size)]
    text = tuple(" and ".join(one.text for one in encoded.predicates_of(key)) for key in keys)
    return Lattice(
        text,
        points.cross,
        points.size,
        points.size / max(evidence.rows, 1),
        points.effect,
        points.p,
        np.array([one in reported for one in text], np.bool_),
    )


def _per_iteration(budget: int | None, possible: int, most: int) -> int:
    if budget is not None:
        return budget
    return WITHOUT_BATCH if possible > most else max(1, round(SHARE * possible))


def _threads(encoded: Encoded, max_cross: int) -> int:
    work = encoded.codes.shape[1] * subset_count(len(encoded.predicates), max_cross)
    return cores() if work >= THREADS_PAY else 1


def _budget(
    encoded: Encoded,
    evidence: Evidence,
    max_cross: int,
    memory_gib: float,
    threads: int,
    shared: bool,
) -> Budget:
    """Choose sizes of a block that keep within the memory; one feature subset must fit."""
    rows = encoded.codes.shape[1]
    largest = int(np.prod(np.sort(encoded.sizes)[-max_cross:].astype(object)))
    cells = min(largest, SPARSE * rows)
    key_bytes = KEY_BYTES + CLUSTER_BYTES * shared
    needed = (cells * evidence.width * 8 + rows * key_bytes) / 2**30
    if needed > memory_gib:
        raise DataError(
            f"memory_gib must hold the candidates of one set of features, got {memory_gib:g} for "
            f"{needed:.2g} GiB: raise it, or lower max_categories or max_cross"
        )
    # Half for cells, half for keys; every thread has a block, and one more is made meanwhile.
    half = memory_gib * 2**30 / 2 / (threads + (threads > 1))
    return Budget(
        cells=max(1, min(CELLS, int(half / (evidence.width * 8)))),
        keys=max(1, min(KEYS, int(half / key_bytes))),
        threads=threads,
    )
