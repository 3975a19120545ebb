"""How often does an audit of scores cry wolf, and how often does it find what `check` promises?

    python benchmarks/score_alarms.py                # 200 audits of each kind, three worlds
    python benchmarks/score_alarms.py --audits 20 --worlds errors

Each world draws test examples and models. Nothing is planted in the first row; the second plants in
one group the smallest worsening that `scotoma audit --plan` prints for it. The third plants the
gate's margin of 5%, the fourth exceeds the margin by as much as the plan prints.
Counted are audits in which any group is shown to get worse, and in which the gate fails; and how
often the 95% intervals of mean, median and 90% quantile of a group hold what was planted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scotoma.audit.gate import Margins
from scotoma.comparison.means import affected, group_effects, score_table
from scotoma.comparison.quantiles import quantile_change, smallest_worsening
from scotoma.config.gate import default_rules
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import Rise
from scotoma.verdict.gate_test import rise_test

MARGIN = 0.05
NAMES = ("all", "a", "b", "c", "d", "a & x", "b & x", "c & x", "d & x")
PLANTED = 1
Floats = np.ndarray


@dataclass(frozen=True)
class World:
    """One way in which scores come about.

    Attributes:
        rows: Test examples.
        clusters: Clusters that they lie in; 0 for none.
        models: Of each population.
        score: Positive scores of rows from difficulties, a scale for each row and a noise.
    """

    rows: int
    clusters: int
    models: int
    score: Callable[[Floats, Floats, Floats], Floats]


def absolute(off: Floats, scale: Floats, noise: Floats) -> Floats:
    """Errors of a regression: what both models miss, and what each misses on its own."""
    return np.abs(off * scale + 0.15 * noise * scale)


def skewed(off: Floats, scale: Floats, noise: Floats) -> Floats:
    """Losses with a long tail."""
    return np.exp(off + 0.2 * noise) * scale


WORLDS = {
    "errors": World(1_500, 0, 1, absolute),
    "populations": World(1_500, 0, 8, absolute),
    "clusters": World(2_400, 400, 1, skewed),
}


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    asked = parser.parse_args()
    for name in asked.worlds:
        world = WORLDS[name]
        promised = [smallest(world, seed) for seed in range(asked.audits)]
        effect = float(np.median(promised))
        beyond = (1 + MARGIN) * (1 + effect) - 1
        print(f"{name}: check prints {100 * effect:.2f}% for the planted group")
        for planted in (0.0, effect, MARGIN, beyond):
            found = [audited(world, 10_000 + seed, planted) for seed in range(asked.audits)]
            shown, right, failed, held = (sum(part) for part in zip(*found, strict=True))
            print(
                f"  planted {100 * planted:.2f}%: shown in {shown} of {asked.audits}, of the "
                f"planted group in {right}; gate fails {failed}; intervals hold "
                f"{', '.join(f'{one:.0f}' for one in held)} (mean, median, 90%)",
                flush=True,
            )


def drawn(world: World, seed: int, planted: float) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Scores before and after, membership in each group, and clusters."""
    rng = np.random.default_rng(seed)
    n = world.rows
    clusters = rng.integers(0, world.clusters, n) if world.clusters else None
    group = rng.integers(0, 4, n)
    off = rng.normal(0, 1, n)
    if clusters is not None:  # of one cluster, rows are of one group and alike
        group = rng.integers(0, 4, world.clusters)[clusters]
        off = 0.7 * rng.normal(0, 1, world.clusters)[clusters] + 0.7 * off
    other = rng.random(n) < 0.5
    masks = [np.ones(n, np.bool_), *(group == g for g in range(4))]
    masks += [(group == g) & other for g in range(4)]
    sides = []
    for side in range(2):
        scale = np.ones((n, world.models))
        if world.models > 1:  # runs differ, and differ by group
            run = rng.normal(0, 0.02, world.models) + rng.normal(0, 0.02, (4, world.models))[group]
            scale = np.exp(run)
        if side:
            scale = scale * np.where(masks[PLANTED], 1 + planted, 1.0)[:, None]
        noise = rng.normal(0, 1, (n, world.models))
        sides.append(world.score(off[:, None], scale, noise))
    return sides[0], sides[1], np.stack(masks), clusters


def smallest(world: World, seed: int) -> float:
    """What `check` prints for the planted group, where nothing is planted."""
    before, after, masks, clusters = drawn(world, seed, 0.0)
    worse = smallest_worsening(score_table(before, after, clusters), masks[PLANTED], len(masks))
    assert worse is not None
    return worse


def audited(world: World, seed: int, planted: float) -> tuple[bool, bool, bool, Floats]:
    """Whether any group, or the planted one, is shown; the gate's answer; intervals that hold."""
    before, after, masks, clusters = drawn(world, seed, planted)
    table = score_table(before, after, clusters)
    effects = group_effects(table, dict(zip(NAMES, masks, strict=True)))
    named = [one.group for one in affected(effects, higher_is_better=False)]
    rules = default_rules(positive=False, scored=True)
    margins = Margins(relative=MARGIN, absolute=None, clearing=None)
    questions = []
    for one in effects[1:]:
        score = one.score
        assert score.variance is not None
        assert score.log_variance is not None
        change = Rise(
            score.change, score.worsening(lower_is_better=True), score.before, score.after,
            score.variance, score.log_variance,
        )  # fmt: skip
        questions.append(
            rise_test("mean", "mean_score", one.group, change, margins, group=one.group)
        )
    failed = any(finding.verdict == "FAIL" for finding in decide(questions, rules))
    worse = effects[PLANTED].score.worsening(lower_is_better=True)
    held = [worse.low <= 100 * planted <= worse.high]
    for share in (0.5, 0.9):
        found = quantile_change(table, share, masks[PLANTED])
        truth = planted * found.before.value  # both sides scale as their scores do
        held.append(found.change.low <= truth <= found.change.high)
    return bool(named), NAMES[PLANTED] in named, failed, np.array(held, float)


if __name__ == "__main__":
    main()
