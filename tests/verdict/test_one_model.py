"""What few runs would have said, and how far one can compress."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from scotoma.audit import GateResult
from scotoma.audit.gate import JudgedVariant
from scotoma.verdict.frontier import frontier_sentence
from scotoma.verdict.gate_test import unanswered
from scotoma.verdict.one_model import one_model_trap
from tests.helpers.audits import whole


def test_one_run_a_side_is_every_pair() -> None:
    """A slow twin: all pairs of members in a loop, the larger of both limits."""
    rng = np.random.default_rng(1)
    dense, compressed = rng.uniform(0.05, 0.15, (3, 6)), rng.uniform(0.06, 0.2, (3, 7))
    limit = np.maximum(0.2 * dense.mean(1), 0.005)
    whole = (compressed.mean(1) - dense.mean(1) > limit).any()
    wrong = [
        any(c - d > max(0.2 * d, 0.005) for d, c in zip(dense[:, i], compressed[:, j], strict=True))
        != whole
        for i in range(6)
        for j in range(7)
    ]
    first = one_model_trap(dense, compressed, relative=0.2, absolute=0.005)[0]
    assert (first.members, first.draws) == (1, 42)
    assert first.wrong == pytest.approx(np.mean(wrong))


def test_two_runs_a_side_are_drawn_without_replacement() -> None:
    rng = np.random.default_rng(2)
    dense, compressed = rng.normal(0.1, 0.01, (1, 6)), rng.normal(0.12, 0.02, (1, 6))
    whole = compressed.mean() - dense.mean() > max(0.2 * dense.mean(), 0.005)
    pairs = list(combinations(range(6), 2))
    exact = np.mean([
        (compressed[0, list(b)].mean() - dense[0, list(a)].mean()
         > max(0.2 * dense[0, list(a)].mean(), 0.005)) != whole
        for a in pairs for b in pairs
    ])  # fmt: skip
    second = one_model_trap(dense, compressed, relative=0.2, absolute=0.005)[1]
    # 1,000 draws: 4 standard errors.
    assert second.wrong == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 1000) + 1e-9)


def test_the_chance_is_that_of_normal_runs() -> None:
    """Runs of sd 0.01 a side, a rise 0.01 above the limit: Phi(-0.01 / sqrt(2) 0.01) are wrong."""
    rng = np.random.default_rng(3)
    dense = 0.1 + 0.01 * norm.ppf((np.arange(400) + 0.5) / 400)[None, rng.permutation(400)]
    compressed = 0.16 + 0.01 * norm.ppf((np.arange(400) + 0.5) / 400)[None, rng.permutation(400)]
    first = one_model_trap(dense, compressed, relative=0.0, absolute=0.05)[0]
    assert first.wrong == pytest.approx(norm.cdf(-1 / np.sqrt(2)), abs=0.003)


def test_pairs_share_what_runs_have_in_common() -> None:
    rng = np.random.default_rng(4)
    dense = rng.normal(0.1, 0.02, (1, 9))
    compressed = dense + 0.03
    paired = one_model_trap(dense, compressed, relative=0.0, absolute=0.02, paired=True)
    apart = one_model_trap(dense, compressed, relative=0.0, absolute=0.02)
    assert [row.wrong for row in paired] == [0.0] * len(paired)
    assert apart[0].wrong > 0.1


def test_one_model_a_side_and_groups_without_examples_say_nothing() -> None:
    assert one_model_trap([[0.1]], [[0.2]], relative=0.2, absolute=0.005) == []
    nothing = np.full((1, 5), np.nan)
    assert one_model_trap(nothing, nothing, relative=0.2, absolute=0.005) == []


def judged(verdicts: dict[str, str]) -> GateResult:
    def variant(name: str, verdict: Any) -> JudgedVariant:
        test = unanswered("fpr", "fpr", "FPR male & old", verdict=verdict, harm_p_adjusted=0.0)
        return JudgedVariant.model_construct(name=name, verdict=verdict, tests=(test,))

    variants = tuple(variant(name, verdict) for name, verdict in verdicts.items())
    return GateResult.model_construct(variants=variants)


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (("PASS", "PASS", "FAIL"), "prune <= 0.7 passes; 0.9 fails on FPR male & old"),
        (("PASS", "UNSURE", "FAIL"),
         "prune <= 0.5 passes; 0.7 is unsure; 0.9 fails on FPR male & old"),
        (("UNSURE", "PASS", "PASS"), "prune 0.5 is unsure; 0.7 passes; 0.9 passes"),
        (("PASS", "PASS", "PASS"), "prune <= 0.9 passes"),
    ],
)  # fmt: skip
def test_the_frontier_in_a_sentence(verdicts: tuple[str, ...], sentence: str) -> None:
    sparsities = {f"prune-{s}": s for s in (0.5, 0.7, 0.9)}
    content = [{"name": "dense", "kind": "dense"}]
    content += [{"name": n, "kind": "prune", "sparsity": s} for n, s in sparsities.items()]
    variants = whole({"variants": content}).variants
    gate = judged(dict(zip(sparsities, verdicts, strict=True)))
    assert frontier_sentence(variants[::-1], gate) == sentence
    assert frontier_sentence(variants[:2], gate) == ""
