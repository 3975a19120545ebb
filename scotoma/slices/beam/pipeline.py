"""The search past one machine: shards of a table counted by Apache Beam, added up and judged.

Each shard is counted where it lies, by the kernel that serves one machine, and adds integers: rows,
and the metric's numerators and denominators in every bootstrap replicate. The combine is keyed by
feature set; under it stand the cells, which together with it name the slices, and the replicates. A
weight depends on (seed, example id, draw) alone, so any runner counts the same to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.slices.arguments import DEFAULTS, check_choices, check_numbers
from scotoma.slices.beam.files import codings_of, file_systems, middle_of, pool_of
from scotoma.slices.beam.halves import Held, Proposals, add_up_proposals, cross_screen
from scotoma.slices.beam.judge import SumsTest
from scotoma.slices.beam.null import Chance
from scotoma.slices.beam.part import Question, Sums, add_up, merge
from scotoma.slices.beam.result import ShardedReport, ShardedSlice
from scotoma.slices.evidence.interface import Direction
from scotoma.slices.evidence.outcomes import metric_named
from scotoma.slices.judging.correction import Correction
from scotoma.slices.judging.protocols import FEWEST, Protocol
from scotoma.slices.report import Null
from scotoma.slices.search.greedy import Key, Step, uncover
from scotoma.slices.search.lattice import Subset, candidates, shape_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.strategies import Finding, significant
from scotoma.slices.search.strategies import Look as Seen
from scotoma.slices.search.sweep import Hits, join

__all__ = ["ShardedReport", "ShardedSlice", "search_shards"]


def search_shards(
    pattern: str,
    *,
    outcome: Sequence[str],
    features: Sequence[str],
    identifier: str,
    out: str,
    baseline: Sequence[str] = (),
    label: str | None = None,
    mode: Literal["batch", "cover"] = "cover",
    metric: str = "error",
    direction: Direction | None = None,
    paired: bool = False,
    max_cross: int = 3,
    min_size: int | None = None,
    alpha: float | None = None,
    correction: Correction | None = None,
    bootstrap: int | None = None,
    protocol: Protocol = "sound",
    max_categories: int = 100,
    bins: int = 10,
    confirm: bool = False,
    level: float = 0.95,
    permutations: int = 5,
    seed: int = 0,
    options: Sequence[str] = (),
) -> ShardedReport:
    """Find slices in a table of many Parquet files, on any runner of Apache Beam.

    What the bins and frequent values are is decided here, from one column at a time; everything
    else happens on the runner. Cover mode takes one pipeline a slice and one more. One model's
    rate and two models' rates have their exact tests, as in `find_slices`; populations and F1 are
    judged by the bootstrap over examples and members, which `find_slices` does in the published
    protocol only.

    Args:
        pattern: The files, such as `data/*.parquet` or `s3://bucket/data/*.parquet`: any file
            system that Beam can read. A file is what one worker counts at a time.
        outcome: Columns of the model, or of the members of a population, as in `find_slices`.
        features: Columns that may define slices.
        identifier: Column of the example ids, integers or strings, unique over all files.
        out: Prefix of the result files, on a file system that runner and caller share.
        baseline: Columns of what is compared with; paired or not.
        label: Column of the true labels.
        mode: `cover` or `batch`.
        metric: `error`, `accuracy`, `flip`, `fpr`, `fnr`, `recall`, `precision` or `f1`.
        direction: As in `find_slices`, like all below.
        paired: Member m of the outcome derives from member m of the baseline.
        max_cross: Largest number of predicates in a slice.
        min_size: Smallest slice.
        alpha: Level of the corrected p-values.
        correction: Over all candidates tested.
        bootstrap: Draws, where the bootstrap serves.
        protocol: `sound` or `published`.
        max_categories: Values of a column with a predicate of their own.
        bins: Bins of a numeric column.
        confirm: In cover mode: each half of the examples proposes slices, the other half decides,
            as in `find_slices`; a pipeline a proposal and three more.
        level: Coverage of the intervals.
        permutations: Searches of outcomes dealt out anew: model and baseline exchanged on a random
            half of the examples; without a baseline drawn for each from those of 100,000 examples.
            Each is at least one pipeline.
        seed: Of the draws.
        options: Options of Beam, such as `--runner=FlinkRunner`; none for this machine.

    Raises:
        DataError: No file, a column that is not there, or an outcome that cannot be counted.
        MissingExtra: Beam is not installed.
    """
    check_choices(protocol=protocol, direction=direction, correction=correction)
    kind, default = metric_named(metric), DEFAULTS[protocol]
    alpha = default["alpha"] if alpha is None else alpha
    least = default["min_size"] if min_size is None else min_size
    bootstrap = default["bootstrap"] if bootstrap is None else bootstrap
    check_numbers(
        max_cross=max_cross, min_size=least, alpha=alpha, bootstrap=bootstrap, level=level,
        permutations=permutations,
    )  # fmt: skip
    if kind.kind in ("mean", "auc"):
        raise DataError(
            f"shards are searched by metrics that count, got {metric!r}: use find_slices, or a "
            "metric of 0 and 1"
        )
    runner = needs(
        "apache_beam.options.pipeline_options", "beam", "searching in shards"
    ).PipelineOptions(list(options))
    pattern, out = (x if "://" in x else str(Path(x).absolute()) for x in (pattern, out))
    others = [identifier, *outcome, *baseline, *([] if label is None else [label])]
    made, rows = codings_of(pattern, features, others, runner, max_categories, bins)
    usable = tuple(one for one in made if len(one.predicates) > 1)
    encoded = Encoded(
        np.broadcast_to(np.uint8(0), (len(usable), rows)), tuple(one.predicates for one in usable)
    )
    rate = kind.kind == "rate" or (metric == "precision" and not baseline)
    exact = protocol == "sound" and rate and len(outcome) == 1 and len(baseline) <= 1
    draws = 0 if exact else bootstrap
    question = Question(
        usable, identifier, tuple(outcome), tuple(baseline), label, metric, paired, max_cross,
        draws, seed,
    )  # fmt: skip
    correction = default["correction"] if correction is None else correction
    test = SumsTest(
        draws=draws,
        baseline=bool(baseline),
        members=min(len(outcome), len(baseline) or len(outcome)),
        direction=direction or kind.worse,
        least=least,
        fewest=FEWEST * len(outcome) if draws and protocol == "sound" else 0.0,
        keep=alpha,
    )

    if confirm := confirm and mode == "cover":
        question = replace(question, middle=middle_of(pattern, question))

    def search(place: str, asked: Question) -> tuple[_Found, Hits, list[_Look]]:
        looks: list[_Look] = []

        def look(half: int | None, found: tuple[Key, ...]) -> Hits:
            own = replace(asked, half=half)
            least = test.least if half is None else -(-test.least // 2)
            out = f"{place}-{len(looks)}"
            looks.append(_run(pattern, own, replace(test, least=least), found, out, runner))
            return looks[-1].hits

        def gather(proposed: Proposals) -> dict[int, Sums]:
            return _gather(pattern, asked, proposed, f"{place}-halves", runner)

        if confirm:
            return *cross_screen(look, gather, encoded, test, alpha, correction), looks
        if mode == "cover":
            return *uncover(partial(look, None), encoded, alpha, correction), looks
        hits = look(None, ())
        return significant(encoded, hits, correction, alpha), hits, looks

    found, hits, looks = search(out, question)
    # The first look of each half; without halves there is one at all rows.
    examples = sum(one.examples for one in looks if not one.without)
    null = list[int]()
    pool = None if baseline or not permutations else pool_of(pattern, question, rows)
    for number in range(permutations if examples else 0):
        asked = replace(question, chance=Chance(seed, number, pool))
        null.append(len(search(f"{out}-null-{number}", asked)[0]))
    seen = looks if mode == "cover" and not confirm else looks[:1] * len(found)
    return ShardedReport(
        slices=tuple(
            _slice(encoded, test, level, one, look)
            for one, look in zip(found, seen[: len(found)], strict=True)
        ),
        examples=examples,
        candidates=candidates(encoded, max_cross),
        nonempty=hits.nonempty,
        tested=hits.tested,
        null=Null(tuple(null)),
        notes=tuple(one.note for one in made if one.note),
    )


_Found = Sequence[Step | Finding | Held]


@dataclass(frozen=True, eq=False)
class _Look:
    """What one pipeline counted: the candidates kept, their sums, and those of all rows."""

    hits: Hits
    lanes: dict[tuple[Subset, int], list[int]]
    whole: Sums
    without: tuple[Key, ...]

    @property
    def examples(self) -> int:
        return int(self.whole.lanes[:, 0].sum())


def _run(
    pattern: str,
    question: Question,
    test: SumsTest,
    without: tuple[Key, ...],
    out: str,
    runner: Any,
) -> _Look:
    beam = needs("apache_beam", "beam", "searching in shards")
    with beam.Pipeline(options=runner) as pipeline:
        sums = (
            pipeline
            | "read row groups" >> beam.io.ReadFromParquetBatched(pattern, columns=question.columns)
            | "count each" >> beam.FlatMap(_count, question, without)
            | "add up" >> beam.CombinePerKey(merge)
        )
        whole = sums | "all rows" >> beam.Filter(lambda numbered: numbered[0] == 0) | beam.Values()
        _ = (
            sums
            | "judge" >> beam.Map(_judged, beam.pvalue.AsIter(whole), test)
            | "write" >> beam.io.WriteToText(out, file_name_suffix=".jsonl")
        )
    return _read(out, question, without, 1 + 2 * (question.draws + 1) * (1 + test.baseline))


def _count(table: Any, question: Question, without: tuple[Key, ...]) -> Iterator[tuple[int, Sums]]:
    return add_up(cast(pl.DataFrame, pl.from_arrow(table)), question, without)


def _judged(numbered: tuple[int, Sums], whole: Iterable[Sums], test: SumsTest) -> str:
    """What is left of a feature set: a line of JSON with its significant slices."""
    number, sums = numbered
    if number == 0:
        return json.dumps({"number": 0, "lanes": sums.lanes.tolist()})
    judged = test.judge(sums, next(iter(whole)))
    kept = judged.p <= test.keep
    place = judged.cell[kept]
    return json.dumps(
        {
            "number": number,
            "cell": sums.cell[place].tolist(),
            "size": judged.size[place].tolist(),
            "effect": judged.effect[kept].tolist(),
            "p": judged.p[kept].tolist(),
            "lanes": sums.lanes[place].tolist(),
            "nonempty": sums.cell.size,
            "tested": judged.p.size,
        }
    )


def _gather(
    pattern: str, question: Question, proposed: Proposals, out: str, runner: Any
) -> dict[int, Sums]:
    """What all parts of the table add to the judgement of both halves' proposals."""
    beam = needs("apache_beam", "beam", "searching in shards")
    with beam.Pipeline(options=runner) as pipeline:
        _ = (
            pipeline
            | "read row groups" >> beam.io.ReadFromParquetBatched(pattern, columns=question.columns)
            | "add to proposals" >> beam.FlatMap(_propose, question, proposed)
            | "add up" >> beam.CombinePerKey(merge)
            | "tell" >> beam.Map(_told)
            | "write" >> beam.io.WriteToText(out, file_name_suffix=".jsonl")
        )
    return {
        line["number"]: Sums(np.array(line["cell"], np.int64), np.array(line["lanes"], np.int64))
        for line in _lines(out)
    }


def _propose(table: Any, question: Question, proposed: Proposals) -> Iterator[tuple[int, Sums]]:
    return add_up_proposals(cast(pl.DataFrame, pl.from_arrow(table)), question, proposed)


def _told(numbered: tuple[int, Sums]) -> str:
    number, sums = numbered
    told = {"number": number, "cell": sums.cell.tolist(), "lanes": sums.lanes.tolist()}
    return json.dumps(told)


def _lines(out: str) -> list[dict[str, Any]]:
    """The lines of all files below a prefix, in any order."""
    systems, lines = file_systems(), list[dict[str, Any]]()
    for file in systems.match([f"{out}-*.jsonl"])[0].metadata_list:
        with systems.open(file.path) as opened:
            lines += [json.loads(line) for line in opened.read().splitlines()]
    return lines


def _read(out: str, question: Question, without: tuple[Key, ...], width: int) -> _Look:
    """The lines of all files, in the order of the feature sets."""
    lines = sorted(_lines(out), key=lambda line: int(line["number"]))
    whole = np.array([line["lanes"][0] for line in lines[:1]], np.int64).reshape(-1, width)
    parts, lanes = list[Hits](), dict[tuple[Subset, int], list[int]]()
    for line in lines[1:]:
        subset = question.subsets[line["number"]]
        parts.append(
            Hits(
                (subset,),
                np.zeros(len(line["p"]), np.int64),
                np.array(line["cell"], np.int64),
                np.array(line["size"], np.int64),
                np.array(line["effect"], np.float64),
                np.array(line["p"], np.float64),
                line["nonempty"],
                line["tested"],
            )
        )
        lanes |= {(subset, c): own for c, own in zip(line["cell"], line["lanes"], strict=True)}
    return _Look(join(parts), lanes, Sums(np.zeros(len(whole), np.int64), whole), without)


def _slice(
    encoded: Encoded, test: SumsTest, level: float, one: Step | Finding | Held, look: _Look
) -> ShardedSlice:
    subset, codes = one.key
    predicates = tuple(encoded.predicates[f][code] for f, code in zip(subset, codes, strict=True))
    if isinstance(one, Held):
        sums, whole = one.sums, one.whole
        discovery = Seen(one.step.p, one.step.q, one.step.size)
    else:
        cell = int(np.ravel_multi_index(codes, shape_of(encoded, subset)))
        sums = Sums(np.array([cell]), np.array([look.lanes[subset, cell]], np.int64))
        whole, discovery = look.whole, None
    effect = test.effect(sums, whole, level)
    return ShardedSlice(predicates, int(sums.lanes[0, 0]), effect, one.p, one.q, discovery)
