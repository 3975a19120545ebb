"""Which half of the examples judges, and which images calibrate group by group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.config import parse_config
from scotoma.errors import ConfigError, DataError
from scotoma.mitigation.held_out import judged_half

pytest.importorskip("onnxruntime")
from scotoma.quantization.calibration import balanced_order

CLUSTERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=2, max_size=80)


@given(CLUSTERS, st.integers(0, 5))
def test_no_cluster_stands_in_both_halves_and_each_stratum_is_cut_in_half(
    rows: list[tuple[int, int]], seed: int
) -> None:
    clusters = np.array([cluster for _, cluster in rows])
    strata = clusters % 4  # one stratum a cluster
    if len(np.unique(clusters)) < 2:
        with pytest.raises(DataError, match="half of the clusters must judge"):
            judged_half(strata, clusters, seed)
        return
    judged = judged_half(strata, clusters, seed)
    both = {c: set(judged[clusters == c].tolist()) for c in np.unique(clusters)}
    assert all(len(halves) == 1 for halves in both.values())
    side = np.array([halves.pop() for halves in both.values()])
    for stratum in range(4):
        own = side[np.array(list(both)) % 4 == stratum]
        assert abs(2 * int(own.sum()) - len(own)) <= 1
    assert judged.tolist() == judged_half(strata, clusters, seed).tolist()


def test_another_seed_draws_other_examples() -> None:
    halves = {judged_half(np.zeros(40, int), None, seed).tobytes() for seed in range(5)}
    assert len(halves) == 5


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(0, 3), st.integers(1, 60))
def test_calibration_takes_as_many_of_each_cell_as_there_are(
    cells: list[int], seed: int, count: int
) -> None:
    numbers = np.array(cells)
    order = np.random.default_rng(seed).permutation(len(cells))
    ordered = balanced_order(numbers, order)
    assert sorted(ordered.tolist()) == list(range(len(cells)))
    taken = numbers[ordered[:count]]
    most = max(int((taken == cell).sum()) for cell in cells)
    for cell in set(cells):  # a cell has fewer than the fullest, less one, only if it is used up
        own = int((taken == cell).sum())
        assert own >= most - 1 or own == cells.count(cell)
    place = {row: at for at, row in enumerate(order.tolist())}
    for cell in set(cells):  # within a cell the shuffle decides
        rows = [place[row] for row in ordered.tolist() if cells[row] == cell]
        assert rows == sorted(rows)


def variants(text: str) -> list[str]:
    config = parse_config(f"variants: [dense, {text}]", "audit.yaml")
    return [variant.name for variant in config.resolved_variants]


def test_group_balanced_calibration_is_a_variant_of_its_own() -> None:
    text = "{int8: [static, dynamic], calibration: group-balanced}, {int8: [static]}"
    assert variants(text) == [
        "dense", "int8-static-group-balanced", "int8-dynamic", "int8-static"
    ]  # fmt: skip


def test_published_images_are_not_balanced() -> None:
    text = "{int8: [static], calibration: group-balanced, protocol: published}"
    with pytest.raises(ConfigError, match="keep one of them"):
        variants(text)
