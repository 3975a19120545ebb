"""Which gate refuses a release that lost nothing, lets harm through, or decides early?

    python benchmarks/releases.py gates --releases 100
    python benchmarks/releases.py looks --releases 300
    python benchmarks/releases.py looks --bets

`gates` draws releases of six tasks of a language model, each item answered several times by the
original and by the candidate: lossless ones, and ones in which a tenth of the items of every task,
one group, lose 20 points, or all of their rate where that is less. Four gates judge the same
samples:

- a point a task: NVIDIA ModelOpt's `gate_compare`, which refuses where the mean of any task falls
  by more than one point;
- recovery: llm-compressor's, which passes where the mean over tasks keeps 95%;
- 100 samples: a shuffled hundred of all answers, whose mean may fall by 5 points;
- Scotoma's: `scotoma compare original candidate --group topic` on the same answers, written as
  NeMo-Skills writes them, with the built-in rules and with a margin.

`--kept FILE` goes on from the releases that a JSONL file holds.

`looks`: how early does `scotoma compare --so-far` decide, and how often is it wrong, looking
always? It draws evaluations of six groups: the original errs on 20%, and a share of the answers of
a release flips, half of them each way. Of a harmed release one group errs 5 points more often; at
the margin, all groups do by exactly the margin, or one does. After every example the wealth of each
bet is worked out, and the first verdict is what counts; `so_far` is asked at that example and must
agree. The fixed gate looks once, at 97.5%, Holm over the same tests: shown is the share of the
evaluation at which it is right as often, and at the margin how often it is wrong. `--small` draws
releases in which a small group loses 30 points, and looks 25 times: with the original's log
complete, or as far as the compressed model's. `--bets` compares ways to bet: the median number of
examples after which one group is decided.

Shares have 95% intervals (Wilson).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cases import run
from scipy.stats import binomtest, norm

from scotoma.config.gate_changes import MaxIncrease
from scotoma.numbers import holm
from scotoma.numbers.anytime import BETS, e_holm
from scotoma.verdict.so_far import SURE, so_far

# Items and answers an item, and how able the model is: the mean of a Beta distribution of rates.
TASKS = {
    "GPQA": (198, 16, 0.70), "LCR": (100, 16, 0.60), "SciCode": (338, 8, 0.40),
    "IFBench": (294, 5, 0.60), "HLE": (2158, 1, 0.15), "Tau2": (114, 8, 0.65),
}  # fmt: skip
LOSS, GROUP_SHARE = 0.20, 0.10
SPREAD = 1.5  # a + b of the Beta distribution: most items are nearly always right, or wrong
MARGINS = (None, 0.05)


def release(rng: np.random.Generator, *, harmed: bool) -> dict[str, np.ndarray]:
    """Draw the answers of a release: task, item, group, and whether each model is right."""
    parts = []
    for number, (items, answers, able) in enumerate(TASKS.values()):
        rate = rng.beta(able * SPREAD, (1 - able) * SPREAD, items)
        group = np.zeros(items, bool)
        group[rng.permutation(items)[: round(GROUP_SHARE * items)]] = True
        after = np.where(group & harmed, rate - np.minimum(LOSS, rate), rate)
        repeated = [np.repeat(values, answers) for values in (np.arange(items), group, rate, after)]
        item, member, before, after = repeated
        parts.append(
            {
                "task": np.full(len(item), number),
                "item": item + 10_000 * number,
                "group": member,
                "original": rng.random(len(item)) < before,
                "candidate": rng.random(len(item)) < after,
            }
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def point_a_task(drawn: dict[str, np.ndarray], _: np.random.Generator) -> str:
    """FAIL where the mean of a task falls by more than a point."""
    return "FAIL" if any(fall > 0.01 for _, fall in falls(drawn)) else "PASS"


def recovery(drawn: dict[str, np.ndarray], _: np.random.Generator) -> str:
    """FAIL where the mean over tasks keeps less than 95%."""
    before = np.mean([mean for mean, _ in falls(drawn)])
    after = np.mean([mean - fall for mean, fall in falls(drawn)])
    return "FAIL" if after < 0.95 * before else "PASS"


def hundred(drawn: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """FAIL where a shuffled hundred of answers falls by more than five points."""
    chosen = rng.permutation(len(drawn["task"]))[:100]
    fall = drawn["original"][chosen].mean() - drawn["candidate"][chosen].mean()
    return "FAIL" if fall > 0.05 else "PASS"


def falls(drawn: dict[str, np.ndarray]) -> Iterator[tuple[float, float]]:
    """The mean of each task, and by how much it falls."""
    for number in range(len(TASKS)):
        own = drawn["task"] == number
        before, after = drawn["original"][own].mean(), drawn["candidate"][own].mean()
        yield float(before), float(before - after)


def write(drawn: dict[str, np.ndarray], folder: Path) -> None:
    """Write the answers of both models as NeMo-Skills does: a file a task and repeat."""
    for number, (task, (items, answers, _)) in enumerate(TASKS.items()):
        own = drawn["task"] == number
        topics = np.where(drawn["group"][own], "own", "rest").reshape(items, answers)[:, 0]
        for model in ("original", "candidate"):
            right = drawn[model][own].reshape(items, answers)
            (folder / model / task).mkdir(parents=True)
            for repeat in range(answers):
                rows = (
                    {
                        "problem": f"{task} {i}",
                        "generation": "",
                        "symbolic_correct": bool(right[i, repeat]),
                        "topic": str(topics[i]),
                    }
                    for i in range(items)
                )
                path = folder / model / task / f"output-rs{repeat}.jsonl"
                path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def ours(folder: Path, margin: float | None) -> tuple[str, bool]:
    """Scotoma's verdict, and whether a FAIL names the group."""
    models = [str(folder / model) for model in ("original", "candidate")]
    asked = ["--group", "topic", "--json", "--quiet"]
    asked += [] if margin is None else ["--margin", str(margin)]
    command = [sys.executable, "-m", "scotoma", "compare", *models, *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (gate,) = json.loads(done.stdout)["gate"]["variants"]
    named = any(one["verdict"] == "FAIL" and one["group"] == "topic=own" for one in gate["tests"])
    return gate["verdict"], named


def judged(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """What every gate says of a lossless and a harmed release, a row each."""
    for harmed in (False, True):
        rng = np.random.default_rng([seed, number, harmed])
        drawn = release(rng, harmed=harmed)
        row = {"number": number, "release": "harmed" if harmed else "lossless", "named": False}
        for name, gate in (
            ("a point a task", point_a_task), ("recovery of 95%", recovery),
            ("100 shuffled answers", hundred),
        ):  # fmt: skip
            yield row | {"gate": name, "verdict": gate(drawn, rng)}
        with tempfile.TemporaryDirectory() as folder:
            write(drawn, Path(folder))
            for margin in MARGINS:
                rules = "built-in rules" if margin is None else f"--margin {margin}"
                verdict, named = ours(Path(folder), margin)
                yield row | {"gate": f"Scotoma, {rules}", "verdict": verdict, "named": named}


def share(count: int, n: int) -> str:
    """A share with its 95% interval."""
    low, high = binomtest(count, n).proportion_ci(method="wilson")
    return f"{count / n:.1%} [{low:.1%}, {high:.1%}]"


def gates(releases: int = 100, seed: int = 0, kept: Path | None = None) -> None:
    """Four gates on the same lossless and harmed releases."""
    lines = kept.read_text().splitlines() if kept and kept.exists() else []
    drawn_ones = [json.loads(line) for line in lines]
    for number in range(len(drawn_ones), releases):
        drawn_ones.append(list(judged(seed, number)))
        if kept:
            with kept.open("a") as file:
                file.write(f"{json.dumps(drawn_ones[-1])}\n")
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in (row for one in drawn_ones[:releases] for row in one):
        counted = counts.setdefault((row["gate"], row["release"]), Counter())
        counted.update([row["verdict"]] + ["named"] * row["named"])
    n = releases
    print(f"{n} releases of each kind, seed {seed}")
    print(f"{'gate':34}{'release':10}{'FAIL':>24}{'UNSURE':>8}{'group named':>24}")
    for (name, kind), found in sorted(counts.items()):
        named = share(found["named"], n) if name.startswith("Scotoma") else "never"
        print(
            f"{name:34}{kind:10}{share(found['FAIL'], n):>24}{found['UNSURE'] / n:>8.1%}{named:>24}"
        )


Array = npt.NDArray[np.float64]
ERROR, HARM, GROUPS = 0.20, 0.05, 6
SHARES = np.arange(0.05, 1.001, 0.05)  # of the evaluation, at which a fixed gate may look


def drawn(
    rng: np.random.Generator, n: int, flips: float, rises: Sequence[float]
) -> tuple[Array, Array, Array]:
    """Group of each example, and the errors of both models."""
    group = rng.integers(0, GROUPS, n)
    before, chance = rng.random(n) < ERROR, rng.random(n)
    lost = (flips / 2 + np.array(rises)[group]) / (1 - ERROR)
    after = np.where(before, chance >= flips / 2 / ERROR, chance < lost)
    return group.astype(np.float64), before.astype(np.float64), after.astype(np.float64)


def wealth(values: Array, mean: float) -> Array:
    """Log of the wealth of bets that the mean of values from -1 to 1 is higher, after each."""
    returned = (values + 1) / (mean + 1)
    paths = np.cumsum(np.log1p(BETS[:, None] * (returned - 1)), axis=1)
    return np.logaddexp.reduce(paths, axis=0) - np.log(len(BETS))


def first_verdict(group: Array, rise: Array, margin: float) -> tuple[str, int]:
    """The first verdict, looking after every example, and after how many it comes."""
    n = len(rise)
    harm, clear = np.zeros((2, GROUPS + 1, n))
    for row in range(GROUPS + 1):
        inside = np.ones(n, bool) if row == GROUPS else group == row
        seen = np.cumsum(inside)
        for side, paths in ((1, harm), (-1, clear)):
            own = np.concatenate([[0.0], wealth(side * rise[inside], side * margin)])
            paths[row] = own[seen]
    top = harm.max(axis=0) >= SURE  # an adjusted e-value is never above its own
    failed = [t for t in np.flatnonzero(top) if e_holm(harm[:, t]).max() >= SURE][:1]
    passed = np.flatnonzero((clear >= SURE).all(axis=0))[:1]
    ends = [(int(t), verdict) for times, verdict in ((failed, "FAIL"), (passed, "PASS"))
            for t in times]  # fmt: skip
    return (min(ends)[1], min(ends)[0] + 1) if ends else ("UNSURE", n)


def asked(group: Array, before: Array, after: Array, n: int, total: int, margin: float) -> str:
    """What `so_far` says after n examples of the compressed model.

    Those that the original has answered are given: all, or as many as the compressed model.
    """
    masks = {"all": np.ones(len(group), bool)}
    masks |= {f"g={g:g}": group == g for g in np.unique(group)}
    seen = np.where(np.arange(len(group)) < n, 1 - after, np.nan)
    return so_far(
        1 - before, seen, masks, models=("a", "b"), total=total,
        limits=MaxIncrease(absolute=margin),
    ).verdict  # fmt: skip


def fixed(group: Array, rise: Array, n: int, margin: float) -> str:
    """The verdict of a gate that looks once, after n examples."""
    z = []
    for row in range(GROUPS + 1):
        own = rise[:n] if row == GROUPS else rise[:n][group[:n] == row]
        unseen = 4 / (len(own) + 4) ** 2  # the allowance for flips that were not seen
        z.append((own.mean() - margin) / np.sqrt(own.var(ddof=1) / len(own) + unseen))
    if holm(norm.sf(z)).min() <= 0.025:
        return "FAIL"
    return "PASS" if norm.cdf(z).max() <= 0.025 else "UNSURE"


def judged_releases(
    rng: np.random.Generator, times: int, n: int, flips: float, margin: float
) -> None:
    """Print how each kind of release ends, and when."""
    one = [0.0] * (GROUPS - 1)
    kinds = {
        "lossless": ([0.0] * GROUPS, "PASS"),
        "one group 5 points": ([HARM, *one], "FAIL"),
        "one group at the margin": ([margin, *one], "PASS"),
        "all groups at the margin": ([margin] * GROUPS, "FAIL"),
    }
    print(f"{times} releases of {n:,} examples, {flips:.0%} flip, margin {100 * margin:g} points")
    print(
        f"{'release':26}{'verdict':9}{'by the end':>22}{'median share used':>27}{'fixed gate':>12}"
    )
    for kind, (rises, verdict) in kinds.items():
        ends, used, alike = [], [], 0
        looks = np.zeros(len(SHARES))
        for _ in range(times):
            group, before, after = drawn(rng, n, flips, rises)
            end, at = first_verdict(group, after - before, margin)
            alike += asked(group, before, after, at, n, margin) == end
            ends.append(end)
            used.append(at / n if end == verdict else 1.0)
            looks += [fixed(group, after - before, int(f * n), margin) == verdict for f in SHARES]
        right = ends.count(verdict)
        quarter, median, last = np.quantile(used, (0.25, 0.5, 0.75))
        enough = np.flatnonzero(looks >= right)
        same = f"{SHARES[enough[0]]:.0%}" if len(enough) else "more"
        times_used = f"{median:.0%} ({quarter:.0%} to {last:.0%})"
        if "margin" in kind:
            times_used, same = "", f"{looks[-1] / times:.1%}"
        print(f"{kind:26}{verdict:9}{share(right, times):>22}{times_used:>27}{same:>8}")
        assert alike == times, f"so_far says otherwise in {times - alike} releases"


def sampling_margin(rng: np.random.Generator, times: int) -> None:
    """False PASSes where sampling allows no margin as fine as the rule's, looking every 100."""
    n, wrong = 2_400, 0
    margin = 2 * np.sqrt(ERROR * (1 - ERROR) / (n / GROUPS))
    for _ in range(times):
        group, before, after = drawn(rng, n, 0.04, [margin] + [0.0] * (GROUPS - 1))
        looks = range(100, n + 1, 100)
        wrong += any(asked(group, before, after, t, n, 0.01) == "PASS" for t in looks)
    print(
        f"one group at the sampling margin of {100 * margin:.1f} points: {share(wrong, times)} PASS"
    )


def small_group(rng: np.random.Generator, times: int) -> None:
    """False PASSes where a small group of 6,000 loses 30 points, looking 25 times."""
    n, looks = 6_000, [*range(100, 6_000, 250), 6_000]
    print(f"{times} releases of {n:,} examples, 1% flip, margin 2 points, {len(looks)} looks")
    print(f"{'of the group':14}{'original':10}{'PASS, wrongly':>22}{'FAIL':>22}")
    for size in (80, 120):
        members = np.repeat([0.0, 1.0, 2.0], [(n - size) // 2, (n - size) // 2, size])
        ends: dict[str, list[str]] = {"complete": [], "as far": []}
        for _ in range(times):
            group = rng.permutation(members)
            before, chance = (rng.random(n) < ERROR).astype(np.float64), rng.random(n)
            lost = (0.005 + 0.30 * (group == 2)) / (1 - ERROR)
            after = np.where(before == 1, chance >= 0.005 / ERROR, chance < lost)
            after = after.astype(np.float64)
            for kind, own in ends.items():
                verdict = "UNSURE"
                for t in looks:
                    log = slice(n if kind == "complete" else t)
                    verdict = asked(group[log], before[log], after[log], t, n, 0.02)
                    if verdict != "UNSURE":
                        break
                own.append(verdict)
        for kind, own in ends.items():
            wrong, right = (share(own.count(verdict), times) for verdict in ("PASS", "FAIL"))
            print(f"{size:<14}{kind:10}{wrong:>22}{right:>22}", flush=True)


def running(values: Array, start: Array) -> Array:
    """What was known before each value."""
    return np.concatenate([start, values[:-1]])


def plugged(values: Array, mean: float, cap: float, *, agrapa: bool) -> Array:
    """Wealth of predictable plug-in bets (Waudby-Smith and Ramdas 2024, aGRAPA or sections 3.1)."""
    x, m, t = (values + 1) / 2, (mean + 1) / 2, np.arange(1, len(values) + 1)
    mu = ((m if agrapa else 0.5) + np.cumsum(x)) / (t + 1)
    var = running((0.25 + np.cumsum((x - mu) ** 2)) / (t + 1), np.array([0.25]))
    ahead = running(mu, np.array([m])) - m
    bet = ahead / (var + ahead**2) if agrapa else np.sqrt(2 * SURE / (var * t * np.log(t + 1)))
    return np.cumsum(np.log1p(np.clip(bet, 0, cap / m) * (x - m)))


def normal(values: Array, mean: float) -> Array:
    """Robbins' normal mixture for values from -1 to 1, tuned to 1,000 examples."""
    total, t = np.cumsum(values - mean), np.arange(1, len(values) + 1)
    own = total**2 / (2 * (t + 200)) * (total > 0)
    return np.asarray(0.5 * np.log(200 / (200 + t)) + own)


def print_bets(rng: np.random.Generator, times: int) -> None:
    """Print how soon each way to bet decides."""
    ways: dict[str, Callable[[Array, float], Array]] = {
        "mixture of bets (used)": wealth,
        "plug-in, aGRAPA": lambda x, m: plugged(x, m, 0.75, agrapa=True),
        "plug-in, empirical Bernstein": lambda x, m: plugged(x, m, 0.5, agrapa=False),
        "normal mixture": normal,
    }
    cases = {
        "lossless, 4% flip, 2 points": (0.02, 0.02, -1, 0.02),
        "lossless, 1% flip, half a point": (0.005, 0.005, -1, 0.005),
        "5 points, margin 2": (0.07, 0.02, 1, 0.02),
    }
    n = 8_000
    print(f"{'':34}" + "".join(f"{way:>30}" for way in ways))
    for case, (lost, won, side, margin) in cases.items():
        ends: dict[str, list[int]] = {way: [] for way in ways}
        for _ in range(times):
            chance = rng.random(n)
            x = (chance < lost).astype(np.float64) - ((chance >= lost) & (chance < lost + won))
            for way, path in ways.items():
                hit = np.flatnonzero(path(side * x, side * margin) >= SURE)
                ends[way].append(int(hit[0]) + 1 if len(hit) else n + 1)
        medians = [np.median(own) for own in ends.values()]
        cells = [f"{own:,.0f}" if own <= n else f"above {n:,}" for own in medians]
        print(f"{case:34}" + "".join(f"{cell:>30}" for cell in cells))


def looks(
    releases: int = 400, examples: int = 12_000, flips: float = 0.02, margin: float = 0.02,
    seed: int = 0, bets: bool = False, small: bool = False,
) -> None:  # fmt: skip
    """A gate that looks after every example, or 25 times (`--small`); ways to bet (`--bets`)."""
    rng = np.random.default_rng(seed)
    finest = 2 * np.sqrt(ERROR * (1 - ERROR) / (examples / GROUPS))
    if margin < 1.1 * finest:
        raise SystemExit(f"{examples:,} examples allow no margin below {1.1 * finest:.3f}")
    if bets:
        print_bets(rng, releases)
    elif small:
        small_group(rng, releases)
    else:
        judged_releases(rng, releases, examples, flips, margin)
        sampling_margin(rng, releases)


if __name__ == "__main__":
    run(__doc__, gates, looks)
