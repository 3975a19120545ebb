"""How often the intervals of small groups and classes hold the truth, int8 beside its dense models.

    python benchmarks/verdict_coverage.py                # 400 audits of 1, 2 and 5 members
    python benchmarks/verdict_coverage.py --audits 50 --members 1

Groups of 20, 40 and 60 examples, each beside the rest, where positives are half (`groups`) and
where they are rare (`rare`); classes of 20, 40 and 60 (`classes`). Compression changes nothing but
1% of the predictions, or raises every error by a point as well. The truth is that of the generator
(`verdict_worlds.py`): with one member a side that of these two models, else the mean over all that
could be trained. A missing interval counts as a miss; an unbounded one, of a ratio that nothing was
seen to divide by, is given but not finite. One line of JSON an interval goes to `--out`.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from verdict import wilson
from verdict_draws import Drawn, draw, rates_of, run_shifts, step_of
from verdict_worlds import COMPRESSIONS, SITES, Attribute, Floats, Harm, World

from scotoma.bias import gap
from scotoma.bias.clarify import metric_changes
from scotoma.impact import class_impact
from scotoma.numbers import Estimate

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


def main() -> None:
    """Draw, measure, compare with the truth, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, nargs="*", default=[1, 2, 5])
    parser.add_argument("--audits", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="seed of the first audit of a cell")
    parser.add_argument("--out", type=Path, help="file that gets a line of JSON an interval")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=WORLDS)
    asked = parser.parse_args()
    worlds = [WORLDS[name] for name in asked.worlds]
    lines = []
    for harm in HARMS:
        for members in asked.members:
            for seed in range(asked.first, asked.first + asked.audits):
                kept = [line for world in worlds for line in intervals(world, harm, members, seed)]
                lines += [
                    {"harm": harm.name, "members": members, "seed": seed} | line for line in kept
                ]
            print(f"{harm.name}, {members} members: {asked.audits} audits", flush=True)
    if asked.out:
        with asked.out.open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)
    report(lines, asked.members)


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


def report(lines: list[dict[str, Any]], members: list[int]) -> None:
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


if __name__ == "__main__":
    main()
