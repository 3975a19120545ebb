"""What do training runs of one seed differ by, and what does deterministic mode cost?"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.audit import read_audit
from scotoma.commands.asking import Answer
from scotoma.config import Config
from scotoma.document import Section, show
from scotoma.errors import ConfigError
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Floats
from scotoma.processes import kept_workers
from scotoma.processes.machine import Workers
from scotoma.published import load
from scotoma.run import Run, read_json, write_json
from scotoma.runs import ACCURACY, RunFinding, finding_rows, spread
from scotoma.runs.effects import two_level_mean
from scotoma.runs.spreads import spread_document
from scotoma.steps.audit import default_place, run_audit

MODES = {False: "as configured", True: "deterministic"}
TOLD = {"audits": "place", "different_weights": "weights", "device": "device",
        "undefined": "undefined"}  # fmt: skip
WARM_UPS = 1  # pairs of runs that are not timed: the first step of a process compiles and allocates
SAME = "as is expected on a CPU, where sums have one order: a spread of 0 is the right answer"
DIFFERENT_ON_CPU = "though they ran on a CPU: a spread of 0 was expected, so look for what differs"


@dataclass(frozen=True)
class IdenticalRuns:
    """Finished training runs of one seed, in one mode.

    Attributes:
        place: Their audit.
        sets: Accuracy and, by attribute, the seven metrics; one value a run.
        undefined: What has no value in a run, and why.
        weights: How many different weight files they left.
        device: What they ran on.
        seconds: Time of each run; of one process on a CPU its CPU time.
    """

    place: str
    sets: Mapping[str, Floats]
    undefined: Mapping[str, str]
    weights: int
    device: str
    seconds: Sequence[float]


def run_identical(
    config: Config, out: str | None, count: int, modes: Sequence[bool], *, quiet: bool
) -> Answer:
    """Train runs of one seed, audit them, and measure their spread and what a mode costs.

    Args:
        config: What is trained; its pruned variants are left out.
        out: Folder of the runs; beside it, with `-deterministic`, those of that mode.
        count: Runs a mode, at least 2.
        modes: Whether each mode is deterministic.
        quiet: Write nothing to stderr.

    Raises:
        ConfigError: Nothing is trained here.
    """
    if not config.source.trains:
        raise ConfigError(
            f"--identical trains one seed several times, and source.kind {config.source.kind} "
            "trains nothing; leave it out"
        )
    content = config.model_dump(mode="json")
    kept = [one for one in content["variants"] if one == "dense" or "int8" in one]
    content["variants"] = kept if len(kept) > 1 else ["dense", {"int8": ["dynamic"]}]
    content["population"] |= {"models": count, "identical": True, "forked": False}
    base = out or default_place(Config.model_validate(content)) + "-identical"
    places = {m: f"{base}-deterministic" if m and len(modes) > 1 else base for m in modes}
    configs = {m: Config.model_validate(content | {"deterministic": m}) for m in modes}
    for mode in modes:
        run_audit(configs[mode], places[mode], step="prepare", quiet=quiet)
    with kept_workers():
        for index in range(count):
            for mode in modes[:: -1 if index % 2 else 1]:  # what else the machine does hits both
                if not quiet:
                    sys.stderr.write(f"note    run {index + 1} of {count}, {MODES[mode]}\n")
                _train(Run.open(places[mode]), index)
    for mode in modes:
        run_audit(configs[mode], places[mode], quiet=quiet)
    found = {MODES[mode]: _finished(places[mode]) for mode in modes}
    spreads = [
        RunFinding(mode, metric, spread(values)[0])
        for mode, one in found.items() for metric, values in one.sets.items()
    ]  # fmt: skip
    cost = cost_of(*(one.seconds for one in found.values())) if len(found) > 1 else None
    made = spread_document(f"{count} runs of seed {config.population.seed}", spreads, [], 0.95)
    said = Section("identical", "", list(_sentences(found, cost)))
    told: dict[str, Any] = {
        key: {mode: getattr(one, field) for mode, one in found.items()}
        for key, field in TOLD.items()
    }
    told |= {"rows": finding_rows({"spread": spreads}).to_dicts(),
            "cost": cost, "published_cost": _published()}  # fmt: skip
    return Answer(replace(made, sections=[*made.sections, said]), told)


def cost_of(without: Sequence[float], with_mode: Sequence[float]) -> Estimate:
    """Measure how much longer runs of a mode take than their pairs without it.

    Args:
        without: Seconds of each run without the mode.
        with_mode: Of each run with it; the first of both warm up and do not count.

    Returns:
        A fraction, 0.178 for 17.8%, by the mean of log ratios with its t interval over the pairs.

    >>> cost = cost_of([9, 1, 1, 1], [9, 1.1, 1.2, 1.3])
    >>> round(cost.value, 3), cost.n
    (0.197, 3)
    """
    logs = np.log(np.asarray(with_mode[WARM_UPS:]) / np.asarray(without[WARM_UPS:]))
    mean = two_level_mean(logs[np.isfinite(logs)], level=0.95)  # an interrupted run has no time
    value, *ends = (math.expm1(end) for end in (mean.value, mean.low, mean.high))
    return replace(mean, value=value, low=ends[0], high=ends[1], note="pairs of runs")


def _train(run: Run, index: int) -> None:
    """Train one run by itself, and keep how long it took."""
    from scotoma.training.population import train_populations

    used, times = Workers(), run.path("identical.json")
    train_populations(run, ["dense"], range(index, index + 1), used)
    kept = read_json(times)["seconds"] if times.exists() else {}
    for kind in used.kinds.values():  # none of a run that was there
        for effort in kind.efforts:
            kept[str(index)] = effort.seconds if effort.gpu_bytes else effort.work_s
    write_json(times, {"seconds": kept})


def _finished(place: str) -> IdenticalRuns:
    run, audit = Run.open(place), read_audit(Path(place, "audit.json"))
    records = [read_json(run.member("dense", k).with_suffix(".json"))
               for k in range(audit.dense.members)]  # fmt: skip
    rows = {
        f"{row.fact('attribute')} {row.metric}": row
        for row in audit.numbers("fairness", "dense")
        if row.models
    }
    undefined = {what: row.undefined for what, row in rows.items() if row.undefined}
    fair = {
        what: np.array(row.models, float) for what, row in rows.items() if what not in undefined
    }
    seconds = read_json(run.path("identical.json"))["seconds"]
    return IdenticalRuns(
        place,
        {ACCURACY: np.array(audit.accuracies("dense")), **fair},
        undefined,
        len({record["sha256"] for record in records}),
        records[0]["hardware"]["device"],
        [seconds.get(str(k), math.nan) for k in range(len(records))],
    )


def _sentences(found: Mapping[str, IdenticalRuns], cost: Estimate | None) -> Iterator[str]:
    for mode, one in found.items():
        count, on_cpu = len(one.sets[ACCURACY]), one.device == "cpu"
        what = "all have the same weights" if one.weights == 1 else (
            f"have {one.weights} different sets of weights"
        )  # fmt: skip
        why = f", {SAME if one.weights == 1 else DIFFERENT_ON_CPU}" if on_cpu else ""
        yield (f"{count} runs {mode} on {one.device} {what}{why}. Their mean accuracy is "
               f"{show(float(one.sets[ACCURACY].mean()), 'rate').value}.")  # fmt: skip
        yield from (f"{metric}: {reason}." for metric, reason in one.undefined.items())
        if len(one.sets) + len(one.undefined) == 1:
            yield "No fairness metrics: name attributes as groups to get them."
    if cost is not None:
        yield (
            f"Deterministic mode: {show(cost, 'points').number}% time a run "
            f"(n = {cost.n} pairs{'; ' + cost.reason if cost.reason else ''}). Qian et al. 2021 "
            f"measured +{_published():.1f}% for ResNet-18 on a GPU."
        )
    yield from (f"{mode}: {one.place}" for mode, one in found.items())


def _published() -> float:
    costs = load("fairness_variance").deterministic_mode_training_overhead_percent
    return float(costs["S-Base ResNet-18"])
