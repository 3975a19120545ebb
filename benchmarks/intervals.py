"""Do intervals hold the truth as often as they say, and does admission let good baselines in?

    python benchmarks/intervals.py small                # 400 audits of 1, 2 and 5 members
    python benchmarks/intervals.py small --audits 50 --members 1
    python benchmarks/intervals.py admission            # 2,000 audits a row, two minutes
    python benchmarks/intervals.py comparison           # 1,000 of each design
    python benchmarks/intervals.py comparison --exact
    python benchmarks/intervals.py robustness           # 200 audits with and without a loss

`small`: groups of 20, 40 and 60 examples, int8 beside its dense models, each group beside the rest,
where positives are half (`groups`) and where they are rare (`rare`); classes of 20, 40 and 60
(`classes`). Compression changes nothing but 1% of the predictions, or raises every error by a point
as well. The truth is that of the generator (`worlds.py`): with one member a side that of these two
models, else the mean over all that could be trained. A missing interval counts as a miss; an
unbounded one, of a ratio that nothing was seen to divide by, is given but not finite. One line of
JSON an interval goes to `--out`.

`admission` draws labels and answers of a baseline of a known accuracy, with difficulties of
examples and of training runs, and counts how often `class_skill` does not show it to be better than
guessing. Then it draws a group whose dense error is rare or 0 and a compressed error exactly at
the margin, and counts how often the gate calls that harm: nominal 2.5%.

`comparison`: two models answer the same examples, alone or in clusters of ten. How hard an example
is, and how hard its cluster is, makes both err; quantization adds noise of its own and a true rise.
The truth is the mean over all examples that there could be, from the normal law. Power: how often
the interval of the change excludes 0. With `--exact` the same of 100 independent examples, summed
over all numbers of flips both ways instead of simulated, for the four flips that the variance floor
adds and for fewer of them. The gate judges at 99.5% and beyond once it corrects for several tests.

`robustness` draws right answers of 10 + 10 members on 2,000 examples under four families of
corruptions at three severities; an extra loss under noise is planted in a group of 500, as large as
`scotoma audit --plan` says can be found.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cases import run
from rich.console import Console
from rich.table import Table
from scipy.special import ndtr, ndtri
from scipy.stats import multinomial, norm
from scipy.stats import t as student
from worlds import (
    COMPRESSIONS,
    SITES,
    Attribute,
    Drawn,
    Floats,
    Harm,
    World,
    draw,
    rates_of,
    run_shifts,
    step_of,
    wilson,
)

from scotoma.answers.admission import chance_note, class_skill
from scotoma.audit.gate import Margins
from scotoma.bias import gap
from scotoma.bias.clarify import metric_changes
from scotoma.bias.counting import RateMetric
from scotoma.bias.subgroup import change_list
from scotoma.comparison.means import mean_change
from scotoma.config.gate import GateRules, parse_rules
from scotoma.impact import class_impact
from scotoma.numbers import ChangeEvidence, Estimate, Tally, flip_floor
from scotoma.robustness.losses import (
    amplified_loss,
    group_contrast,
    group_tests,
    planted_robustness,
    smallest_contrast,
)
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import Rise
from scotoma.verdict.gate_test import rise_test

SIZES = (20, 40, 60)
SMALL = Attribute(
    name="small", values=("rest", "g20", "g40", "g60"), rows=(2000 - sum(SIZES), *SIZES),
    factors=(1.0, 1.35, 1.35, 1.35),
)  # fmt: skip
GROUPS = World(
    name="groups", class_rows=(1000, 1000), class_error=(0.06, 0.08), attributes=(SITES, SMALL),
    binary=True, concentration=1.5, run_sd=0.05, class_run_sd=0.05, group_run_sd=0.03,
)  # fmt: skip
RARE = replace(GROUPS, name="rare", class_rows=(1700, 300), class_error=(0.03, 0.15))
CLASSES = World(
    name="classes", class_rows=(*SIZES, 900, 980), class_error=(0.10, 0.10, 0.10, 0.06, 0.08),
    attributes=(SITES,), concentration=1.5, run_sd=0.05, class_run_sd=0.05, group_run_sd=0.03,
)  # fmt: skip
INT8 = COMPRESSIONS["int8-1%"]
HARMS = (Harm(name="none"), Harm(name="all+1", where="all", loss=0.01))
WORLDS = {world.name: world for world in (GROUPS, RARE, CLASSES)}
RUNS = 2_000  # training runs over which the truth of several members is averaged
NO_FEATURES = ("FT",)  # metrics that need more than predictions


def intervals(world: World, harm: Harm, members: int, seed: int) -> Iterator[dict[str, Any]]:
    """Every interval of one audit beside its truth."""
    drawn = draw(world, INT8, harm, members, seed)
    lines = classes(drawn) if world is CLASSES else gaps_and_outcomes(world, harm, drawn)
    return ({"world": world.name} | line for line in lines)


def gaps_and_outcomes(world: World, harm: Harm, drawn: Drawn) -> Iterator[dict[str, Any]]:
    """Gaps of each small group to the rest, and changes of the outcomes between them."""
    truths = true_changes(world, harm, drawn)
    for place, size in enumerate(SIZES, 1):
        inside = drawn.attributes[1] == place
        for metric in ("error", "fpr", "fnr"):
            contrast = gap(
                drawn.labels, drawn.dense, drawn.compressed, ~inside, inside, metric=metric,
                positive=1, n_classes=2, paired=True,
            )  # fmt: skip
            yield _line("gap", metric, size, contrast["gap"], truths[place]["gap", metric])
        moved = metric_changes(
            d=inside, dense=drawn.dense == 1, compressed=drawn.compressed == 1,
            y=drawn.labels == 1, strata=drawn.attributes[0], paired=True,
        )  # fmt: skip
        for metric, change in moved.items():
            if metric not in NO_FEATURES:
                yield _line("outcome", metric, size, change, truths[place]["outcome", metric])


def classes(drawn: Drawn) -> Iterator[dict[str, Any]]:
    """Changes of the recall of the small classes, beyond that of the accuracy."""
    impact = class_impact(
        drawn.dense, drawn.compressed, drawn.labels, n_classes=len(CLASSES.classes), paired=True
    )
    lost = drawn.compressed_rates - drawn.dense_rates
    for class_id, size in enumerate(SIZES):
        own = CLASSES.cells.places[:, 0] == class_id
        truth = CLASSES.cells.mean(lost, own) - float(CLASSES.cells.shares @ lost)
        yield _line("class", "recall", size, impact[class_id].loss, truth)


def true_changes(world: World, harm: Harm, drawn: Drawn) -> dict[int, dict[tuple[str, str], float]]:
    """The truth of gaps and outcomes, by the number of the value of the second attribute."""
    if drawn.dense.shape[1] > 1:
        return _true_changes_over_runs(world, harm)
    return {
        place: _differences(world, place, drawn.dense_rates, drawn.compressed_rates)
        for place in range(1, len(SIZES) + 1)
    }


@functools.cache
def _true_changes_over_runs(world: World, harm: Harm) -> dict[int, dict[tuple[str, str], float]]:
    """Mean over training runs, since a metric of mean rates is not the mean of the metric."""
    dense_runs, _ = run_shifts(world, RUNS, follows=1.0, seed=1)
    nothing = np.zeros(len(dense_runs))
    step = step_of(world, np.ones(len(nothing), dtype=bool), float(harm.loss)) if harm.loss else 0.0
    dense = rates_of(world, nothing, dense_runs)
    # In the long run compressed members have the runs of dense ones, whoever follows whom.
    compressed = rates_of(world, nothing + step, dense_runs) if harm.loss else dense
    return {
        place: _differences(world, place, dense, compressed) for place in range(1, len(SIZES) + 1)
    }


def _differences(
    world: World, place: int, dense: Floats, compressed: Floats
) -> dict[tuple[str, str], float]:
    """Compressed minus dense, of rates of the cells of shape (M,) or (M, runs)."""
    before, after = _confusion(world, place, dense), _confusion(world, place, compressed)
    with np.errstate(invalid="ignore", divide="ignore"):
        outcomes = {
            ("outcome", name): float(np.mean(after_one - before_one))
            for (name, after_one), before_one in zip(
                outcome_metrics(after).items(), outcome_metrics(before).values(), strict=True
            )
        }
    gaps = {}
    for metric, (events, risk) in {
        "error": ([(0, 1), (1, 0)], [0, 1]), "fpr": ([(0, 1)], [0]), "fnr": ([(1, 0)], [1]),
    }.items():  # fmt: skip
        rises = []
        for facet in (0, 1):
            at_risk = sum(before[:, facet, y].sum(axis=(0, 1)) for y in risk)
            more = sum((after - before)[:, facet, y, p].sum(axis=0) for y, p in events)
            rises.append(float(np.mean(more / at_risk)))
        gaps["gap", metric] = rises[1] - rises[0]
    return gaps | outcomes


def _confusion(world: World, place: int, rates: Floats) -> Floats:
    """Shares of the examples [stratum, facet (1: the group), label, prediction, run]."""
    cells = world.cells
    y, site, value = cells.places.T
    errors = rates if rates.ndim == 2 else rates[:, None]
    table = np.zeros((site.max() + 1, 2, 2, 2, errors.shape[1]))
    for share, label, stratum, own, error in zip(cells.shares, y, site, value, errors, strict=True):
        table[stratum, int(own == place), label, 1 - label] += share * error
        table[stratum, int(own == place), label, label] += share * (1 - error)
    return table


def outcome_metrics(table: Floats) -> dict[str, npt.NDArray[np.float64]]:
    """Clarify's post-training metrics of shares [stratum, facet, label, prediction, run].

    Facet 1 is the disadvantaged one. The formulas are those of the SageMaker Clarify documentation,
    "Measure post-training data and model bias".
    """
    whole = table.sum(axis=0)
    (tn_a, fp_a), (fn_a, tp_a) = whole[0]
    (tn_d, fp_d), (fn_d, tp_d) = whole[1]
    n_a, n_d = whole[0].sum(axis=(0, 1)), whole[1].sum(axis=(0, 1))
    positive_a, positive_d = (fp_a + tp_a) / n_a, (fp_d + tp_d) / n_d
    decided = table.sum(axis=2)  # [stratum, facet, prediction, run]
    sizes = decided.sum(axis=(1, 2))
    share = decided[:, 1] / decided.sum(axis=1)
    benefit = np.array([[1.0, 2.0], [0.0, 1.0]])[..., None]
    everyone = whole.sum(axis=0)
    mean = (benefit * everyone).sum(axis=(0, 1))
    return {
        "DPPL": positive_a - positive_d,
        "DI": positive_d / positive_a,
        "AD": (tn_a + tp_a) / n_a - (tn_d + tp_d) / n_d,
        "RD": tp_a / (fn_a + tp_a) - tp_d / (fn_d + tp_d),
        "DAR": tp_a / (fp_a + tp_a) - tp_d / (fp_d + tp_d),
        "DCA": (fn_a + tp_a) / (fp_a + tp_a) - (fn_d + tp_d) / (fp_d + tp_d),
        "SD": tn_d / (tn_d + fp_d) - tn_a / (tn_a + fp_a),
        "DRR": tn_d / (tn_d + fn_d) - tn_a / (tn_a + fn_a),
        "DCR": (tn_d + fp_d) / (tn_d + fn_d) - (tn_a + fp_a) / (tn_a + fn_a),
        "TE": fn_d / fp_d - fn_a / fp_a,
        "CDDPL": (sizes * (share[:, 0] - share[:, 1])).sum(axis=0) / sizes.sum(axis=0),
        "GE": (benefit**2 * everyone).sum(axis=(0, 1)) / mean**2 / 2 - 0.5,
    }


def _line(kind: str, metric: str, size: int, change: Estimate, truth: float) -> dict[str, Any]:
    given = not np.isnan([change.low, change.high]).any()
    finite = bool(np.isfinite([change.low, change.high]).all())
    return {
        "kind": kind,
        "metric": metric,
        "size": size,
        "given": bool(given),
        "finite": finite,
        "holds": bool(given and change.low <= truth <= change.high),
        "cries": bool(given and not change.low <= 0 <= change.high),
        "value": None if np.isnan(change.value) else change.value,
        "truth": truth,
        "width": change.high - change.low if finite else None,
        "reason": change.reason,
    }


def report_small(lines: list[dict[str, Any]], members: list[int]) -> None:
    """Print coverage, and how often an interval is given and is finite, by metric and size."""
    titles = [f"{what}, K = {k}" for k in members for what in ("holds", "given", "finite")]
    table = Table("world", "harm", "what", "n", *titles)
    cells: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = {}
    for line in lines:
        key = line["world"], line["harm"], line["kind"], line["metric"], line["size"]
        cells.setdefault(key, {}).setdefault(line["members"], []).append(line)
    for (world, harm, kind, metric, size), by_members in cells.items():
        shown = []
        for k in members:
            own = by_members[k]
            shown.append(wilson(sum(line["holds"] for line in own), len(own)))
            shares = (np.mean([line[what] for line in own]) for what in ("given", "finite"))
            shown += [f"{share:.3f}" for share in shares]
        table.add_row(world, harm, f"{kind} {metric}", str(size), *shown)
    Console(width=200).print(table)


def small(
    members: tuple[int, ...] = (1, 2, 5), audits: int = 400, first: int = 0,
    out: Path | None = None, worlds: tuple[str, ...] = tuple(WORLDS),
) -> None:  # fmt: skip
    """How often the intervals of small groups and classes hold the truth."""
    lines = []
    for harm in HARMS:
        for k in members:
            lines += [
                {"harm": harm.name, "members": k, "seed": seed} | line
                for seed in range(first, first + audits)
                for world in worlds
                for line in intervals(WORLDS[world], harm, k, seed)
            ]
            print(f"{harm.name}, {k} members: {audits} audits", flush=True)
    if out:
        with out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    report_small(lines, list(members))


MARGINS = Margins(relative=0.2, absolute=0.005, clearing=None)
RULES = "rules: [{id: e, metric: error, max_increase: {relative: 0.2, absolute: 0.005}}]"
DIFFICULTY, RUN = 1.0, 0.1  # standard deviations on the probit scale


@dataclass(frozen=True)
class Skill:
    """A baseline whose skill is known.

    Attributes:
        classes: Number of classes, equally frequent.
        n: Examples.
        models: Models.
        above: By how much its accuracy exceeds that of guessing, in standard errors of guessing.
    """

    classes: int
    n: int
    models: int
    above: float

    @property
    def accuracy(self) -> float:
        """Its accuracy."""
        chance = 1 / self.classes
        return chance + self.above * math.sqrt(chance * (1 - chance) / self.n)


@dataclass(frozen=True)
class AtMargin:
    """A group at its margin.

    Attributes:
        n: Examples.
        models: Models a side.
        dense: Dense error.
        beyond: How far the compressed error lies beyond the margin; 0 for exactly at it.
    """

    n: int
    models: int
    dense: float
    beyond: float = 0.0

    @property
    def compressed(self) -> float:
        """Compressed error."""
        return self.dense + max(0.2 * self.dense, 0.005) + self.beyond


SKILLS = [
    Skill(classes, n, models, above)
    for classes, n in ((2, 200), (2, 2000), (10, 200), (10, 2000), (100, 2000))
    for models in (1, 5)
    for above in (0.0, 3.0, 5.0, 10.0)
    if above == 0 or Skill(classes, n, models, above).accuracy < 0.95
]
AT_MARGIN = [
    AtMargin(n, models, dense, beyond)
    for n in (100, 400, 2000, 10000)
    for models in (1, 5)
    for dense in (0.0, 0.001, 0.005, 0.02)
    for beyond in (0.0, 0.16 if n == 100 else 0.05)
]


def _events(
    rng: np.random.Generator, n: int, rate: float, models: int, difficulty: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Errors of a probit model whose mean rate is `rate`, shape (n, models)."""
    if rate == 0:
        return np.zeros((n, models), bool)
    runs = rng.normal(0, RUN, models) if models > 1 else np.zeros(1)
    spread = math.sqrt(1 + DIFFICULTY**2 + (RUN**2 if models > 1 else 0))
    at = float(ndtri(rate)) * spread + DIFFICULTY * difficulty[:, None] + runs
    return rng.random((n, models)) < ndtr(at)


def blocked(skill: Skill, audits: int, seed: int = 0) -> float:
    """Share of audits whose baseline is not shown to be better than guessing."""
    count = 0
    for audit in range(audits):
        rng = np.random.Generator(np.random.Philox(key=[seed, audit]))
        labels = rng.integers(0, skill.classes, skill.n)
        # Right beyond chance; whoever does not know guesses among all classes.
        chance = 1 / skill.classes
        known = (skill.accuracy - chance) / (1 - chance)
        unknown = _events(rng, skill.n, 1 - known, skill.models, rng.normal(size=skill.n))
        guesses = rng.integers(0, skill.classes, unknown.shape)
        answers = np.where(unknown, guesses, labels[:, None])
        count += chance_note(class_skill(answers, labels), "") is not None
    return count / audits


def failed(harm: AtMargin, audits: int, seed: int = 0) -> float:
    """Share of audits in which the gate calls one group's rise harm."""
    rules: GateRules = parse_rules(RULES, "rules")
    metric = RateMetric("error", None, "error", "examples")
    count = 0
    for audit in range(audits):
        rng = np.random.Generator(np.random.Philox(key=[seed, audit]))
        hard = rng.normal(size=harm.n)
        # Difficulties of dense and compressed correlate at .95.
        other = 0.95 * hard + math.sqrt(1 - 0.95**2) * rng.normal(size=harm.n)
        dense = _events(rng, harm.n, harm.dense, harm.models, hard)
        compressed = _events(rng, harm.n, harm.compressed, harm.models, other)
        moments = Tally.stack([Tally.of(dense, compressed)], (1, 1))
        (rise,) = change_list(ChangeEvidence.of_tally(moments), ["g"], [metric], 0.95)
        change = Rise(
            rise.absolute, rise.relative, rise.dense, rise.compressed, rise.absolute_variance,
            rise.relative_variance,
        )  # fmt: skip
        question = rise_test("e", "error", "error g", change, MARGINS)
        count += decide([question], rules)[0].verdict == "FAIL"
    return count / audits


def _rows(audits: int) -> Iterator[Table]:
    table = Table("classes", "n", "models", "accuracy", "not admitted", title="Baselines")
    for skill in SKILLS:
        share = blocked(skill, audits)
        table.add_row(
            *map(str, (skill.classes, skill.n, skill.models)),
            f"{skill.accuracy:.3f}{' (guessing)' if skill.above == 0 else ''}", f"{share:.3f}",
        )  # fmt: skip
    yield table
    table = Table("n", "models", "dense", "compressed", "FAIL", title="Groups at the margin")
    for harm in AT_MARGIN:
        share = failed(harm, audits)
        where = "" if harm.beyond else " (at the margin)"
        table.add_row(
            *map(str, (harm.n, harm.models)), f"{harm.dense:.3f}",
            f"{harm.compressed:.4f}{where}", f"{share:.3f}",
        )  # fmt: skip
    yield table


def admission(audits: int = 2000) -> None:
    """Whether admission blocks good baselines, and harmless groups fail at their margin."""
    for table in _rows(audits):
        Console(width=100).print(table)


SHARED = 0.5  # of the variance of hardness, by clusters of ten
NOISE = 0.25  # of the quantized model
THRESHOLD = 1.0


def coverage(
    n: int, size: int, harm: float, simulations: int
) -> tuple[float, float, float, float, float]:
    """Simulate comparisons of one design.

    Args:
        n: Examples.
        size: Examples in a cluster.
        harm: By how much harder all examples are for the compressed model.
        simulations: How many.

    Returns:
        Share of intervals that hold the truth, share that exclude 0, mean width, true rise, and
        mean number of answers that change.
    """
    rng = np.random.default_rng([n, size, round(100 * harm)])
    # Error is the chance that a standard normal hardness, plus noise and harm, is above.
    truth = float(norm.sf((THRESHOLD - harm) / np.hypot(1.0, NOISE)) - norm.sf(THRESHOLD))
    clusters = np.repeat(np.arange(n // size), size)
    held = shown = flips = 0
    widths = []
    for _ in range(simulations):
        hard = rng.normal(size=n)
        if size > 1:
            own = rng.normal(size=n // size)[clusters]
            hard = np.sqrt(SHARED) * own + np.sqrt(1 - SHARED) * hard
        before = hard > THRESHOLD
        after = hard + harm + NOISE * rng.normal(size=n) > THRESHOLD
        change = mean_change(before, after, clusters=clusters if size > 1 else None).change
        flips += int((before != after).sum())
        held += change.low <= truth <= change.high
        shown += not change.low <= 0 <= change.high
        widths.append(change.high - change.low)
    shares = held / simulations, shown / simulations
    return *shares, float(np.mean(widths)), truth, flips / simulations


def exact_coverage(n: int, added: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Coverage and power of the interval of a change, were the floor of another size.

    Args:
        n: Independent examples, answered by one model a side.
        added: Flips that the floor adds; `flip_floor` adds 4.
        level: Of the interval.

    Returns:
        Of 1 to 20 expected flips, of which 0 to all go one way, 40 designs: the chance that the
        interval holds the truth, and that it excludes 0.
    """
    worse, better = np.meshgrid(np.arange(n // 2), np.arange(n // 2), indexing="ij")
    change = (worse - better) / n
    spread = (worse + better) / n - change**2
    same = n - worse - better
    fourth = worse * (1 - change) ** 4 + better * (1 + change) ** 4 + same * change**4
    excess = np.divide(fourth / n, spread**2, where=spread > 0, out=np.ones(spread.shape)) - 1
    examples = spread / (n - 1)
    floor = flip_floor(examples, excess, n) * added / 4 * ((n + 4) / (n + added)) ** 2
    varied = np.maximum(examples**2 * excess / (2 * n), 1e-300)
    df = np.minimum((examples + floor) ** 2 / varied, 1e9)
    half = student.ppf(0.5 + level / 2, df) * np.sqrt(examples + floor)
    low, high = change - half, change + half
    held, power = [], []
    for flips in (1, 2, 3, 5, 7, 10, 15, 20):
        for one_way in (0, 0.25, 0.5, 0.75, 1):
            up, down = flips * (1 + one_way) / 2 / n, flips * (1 - one_way) / 2 / n
            counts = np.stack([worse, better, np.maximum(same, 0)], axis=-1)
            chance = multinomial.pmf(counts, n, [up, down, 1 - up - down]) * (same >= 0)
            truth = up - down
            held.append(chance[(low <= truth + 1e-12) & (truth <= high + 1e-12)].sum())
            power.append(chance[(low > 0) | (high < 0)].sum())
    return np.array(held), np.array(power)


def comparison(simulations: int = 1_000, exact: bool = False) -> None:
    """Coverage and power of the interval of a change of one model against another."""
    if exact:
        print("added flips  level  lowest  mean  above 98.5%  power")
        for level in (0.95, 0.995):
            for added in (4, 3, 2, 1):
                held, powers = exact_coverage(100, added, level)
                above = f"{100 * (held > 0.985).mean():10.0f}%" if level < 0.985 else f"{'':11}"
                print(
                    f"{added:11}  {level:5}  {held.min():6.3f}  {held.mean():.3f} {above}  "
                    f"{powers.mean():5.2f}"
                )
        return
    print("     n  clusters of  true rise  changed  coverage  power  mean width")
    for n in (100, 1_000, 10_000):
        for size in (1, 10):
            for harm in (0.0, 0.2):
                covered, shown, width, rise, changed = coverage(n, size, harm, simulations)
                print(
                    f"{n:6,}  {size:11}  {100 * rise:8.1f}%  {changed:7.0f}  {covered:8.3f}  "
                    f"{shown:5.2f}  {100 * width:8.1f}%",
                    flush=True,
                )


EXAMPLES, GROUP, MEMBERS, SEVERITIES = 2_000, 500, 10, 3
FAMILIES = {"noise": 3, "blur": 4, "weather": 4, "digital": 4}
KEYS = {f"age={age}": slice(GROUP * age, GROUP * (age + 1)) for age in range(4)}


def audited(extra: float, seed: int) -> tuple[dict[tuple[str, str], float], bool, bool]:
    """Adjusted p-values, and whether the intervals of noise cover: the group's, all examples'."""
    masks = {key: np.zeros(EXAMPLES, np.bool_) for key in KEYS}
    for key, rows in KEYS.items():
        masks[key][rows] = True
    first = masks["age=0"]
    dense, compressed = planted_robustness(
        first, extra=extra, members=MEMBERS, families=tuple(FAMILIES.values()),
        severities=SEVERITIES, seed=seed,
    )  # fmt: skip
    ends = np.cumsum(list(FAMILIES.values()))
    contrasts, whole = {}, None
    for family, end in zip(FAMILIES, ends, strict=True):
        places = range(end - FAMILIES[family], end)
        own = dense.under(places), compressed.under(places)
        if family == "noise":
            whole = amplified_loss(own[0].means(), own[1].means(), "absolute")[0]
        contrasts |= {(key, family): group_contrast(*own, mask) for key, mask in masks.items()}
    one = contrasts["age=0", "noise"]
    tests = {key: adjusted for key, (_, adjusted) in group_tests(contrasts).items()}
    assert whole is not None
    return (
        tests,
        one.low <= extra <= one.high,
        whole.low <= extra * GROUP / EXAMPLES <= whole.high,
    )


def robustness(audits: int = 200) -> None:
    """Whether the test finds a planted loss of one group, holds its size, and covers the truth."""
    effect = smallest_contrast(
        GROUP, EXAMPLES - GROUP, members=MEMBERS, corruptions=FAMILIES["noise"],
        severities=SEVERITIES, tests=len(KEYS) * len(FAMILIES),
    )  # fmt: skip
    for name, extra in (("planted", effect), ("none planted", 0.0)):
        drawn = [audited(extra, seed) for seed in range(audits)]
        found = sum(tests["age=0", "noise"] <= 0.05 for tests, *_ in drawn)
        alarms = sum(min(tests.values()) <= 0.05 for tests, *_ in drawn)
        shown = f"found in {found}" if extra else f"a false alarm in {alarms}"
        print(
            f"{name} ({100 * extra:.1f} points): {shown} of {audits}; the interval covers for the "
            f"group {sum(one for _, one, _ in drawn)}, for all {sum(a for *_, a in drawn)}"
        )


if __name__ == "__main__":
    run(__doc__, small, admission, comparison, robustness)
