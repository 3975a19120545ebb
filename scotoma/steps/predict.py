"""Predict the test examples with the members of a shard."""

from __future__ import annotations

import hashlib
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.answers.group_keys import group_key
from scotoma.datasets import AuditedExamples, decode_images_to
from scotoma.datasets.label_pairs import label_rows
from scotoma.datasets.parts import part_digest
from scotoma.errors import DataError
from scotoma.inference import MemberAnswers, Network, PixelArray, predict_members
from scotoma.inference.costs import file_sizes, latencies_apart, measure_latencies
from scotoma.inference.engines import runs_on_gpu
from scotoma.inference.members import graph_files, members_of, network_of, score_files
from scotoma.inference.model_process import runtime_process
from scotoma.inference.population import needs_torch
from scotoma.mitigation.decide import Rule, fit
from scotoma.mitigation.groups import TrainingGroups, network_outputs, training_groups
from scotoma.predictions import TOP, Predictions, kept_classes, smallest_type
from scotoma.predictions.scores import SCORE_ROWS, ScoreHeads, write_scores
from scotoma.printable import printable
from scotoma.processes import WorkerPool, map_in_order, progress, worker_pool
from scotoma.processes.machine import Workers, cores, versions
from scotoma.run import Run, write_json
from scotoma.run.shards import Shard
from scotoma.run.workers import leave_workers, say
from scotoma.steps.measures.devices import BothDevices
from scotoma.steps.measures.gallery import exported_from, network_predictions
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written


@when_due
def predict(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Run every member of a shard on the test examples."""
    members = _members(run, shard)
    outputs = [run.predictions(name, shard.index) for name, own in members.items() if own]
    graphs = graph_files(run, shard)
    inputs = [*(run.member(name, k) for name, own in members.items() for k in own), *graphs]
    if shard.index == 0:
        from scotoma.steps.measures.gallery import parity_inputs

        outputs += parity_inputs(run)
    leaves = [p for name, own in members.items() for p in score_files(run, name, own)]
    leaves += [*outputs, *([run.costs] if shard.index == 0 else [])]
    made_with = f"{versions()}{part_digest(run, 'shown')}{_decided_with(run)}"
    yield Leaves(leaves, inputs, made_with, outputs)

    predict_shard(run, shard, *graphs)


def _members(run: Run, shard: Shard) -> dict[str, range]:
    """Members of a shard by variant."""
    return {v.name: members_of(run.config, v.name, shard) for v in run.config.resolved_variants}


def _decided_with(run: Run) -> str:
    """Read the digest of what decides beside images: groups, where a technique reads them."""
    asked = run.config.mitigation
    if asked is None:
        return ""
    tested = part_digest(run, "measured") if asked.facts.test_groups != "no" else ""
    return f"{part_digest(run, 'training')}{part_digest(run, 'grouped')}{tested}"


@dataclass
class EveryScore:
    """The scores of members while they arrive, on disk; nothing where they are not wanted.

    Attributes:
        run: Whose members they are.
        examples: The test examples.
        folder: For scores that are not whole yet.
        rule: Decides by all scores of a member; None where the highest score decides.
        groups: The groups in training; None where no technique reads any.
        codes: Group codes of the test examples, shape (N,), for rules that read them.
    """

    run: Run
    examples: AuditedExamples
    folder: Path
    rule: Rule | None = None
    groups: TrainingGroups | None = None
    codes: NDArray[np.int64] | None = None
    _missing: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def open(cls, run: Run, examples: AuditedExamples, folder: Path) -> EveryScore:
        """Prepare the rule of the run's technique.

        Args:
            run: Its examples are prepared.
            examples: Of the test split.
            folder: An empty one.

        Raises:
            DataError: A test example is of a group that training did not have.
        """
        asked = run.config.mitigation
        if asked is None or not run.config.keeps_every_score:
            return cls(run, examples, folder)
        training = AuditedExamples.read(run.examples, images=False, split="train")
        groups = training_groups(run.config, training)
        if not asked.heads:
            return cls(run, examples, folder, groups=groups)
        width = groups.counts.size
        options = {"protocol": asked.protocol} if "protocol" in asked.facts.settings else {}
        rule = fit(
            asked.technique, np.zeros((len(training.labels), width)), training.labels,
            groups.codes, classes=len(examples.classes), **options,
        )  # fmt: skip
        codes = None
        if rule.needs.attributes == "each example":
            codes = _test_codes(examples, str(asked.attribute), groups.values)
        return cls(run, examples, folder, rule, groups, codes)

    @property
    def wanted(self) -> bool:
        """Whether inference is to give every score."""
        return self.run.config.keeps_every_score

    def take(
        self, variant: str, member: int, answers: MemberAnswers, *, kept: bool = True
    ) -> NDArray[np.int64] | None:
        """Keep the scores of some rows; of the last ones of a member, write its file.

        Args:
            variant: Name of the variant.
            member: Index of the member.
            answers: With every score.
            kept: Whether there is a file.

        Returns:
            The member's class ids, shape (N,), once all rows are there and if a rule decides.
        """
        whole = self._put(variant, member, answers)
        if whole is None:
            return None
        ids = pl.Series(self.examples.image_ids, dtype=pl.String)
        blocks = (slice(start, start + SCORE_ROWS) for start in range(0, len(ids), SCORE_ROWS))
        if kept:
            parts = ((ids[rows], whole[rows]) for rows in blocks)
            write_scores(self.run.scores(variant, member), parts, self._heads(variant, member))
        if self.rule is None:
            return None
        if not np.isfinite(whole).all():  # a member that diverged says the first class
            return np.zeros(len(whole), np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            return self.rule(whole, self.codes)

    def _put(self, variant: str, member: int, answers: MemberAnswers) -> NDArray[np.float32] | None:
        """Keep scores on disk; return a member's whole table once it is there."""
        scores, key = answers.every_score, (variant, member)
        assert scores is not None
        path = self.folder / f"{hashlib.sha256(variant.encode()).hexdigest()}-{member}.npy"
        rows = len(self.examples.image_ids)
        new = key not in self._missing
        table = np.lib.format.open_memmap(
            path,
            mode="w+" if new else "r+",
            dtype=np.float32 if new else None,
            shape=(rows, scores.shape[1]) if new else None,
        )
        table[answers.rows] = scores
        self._missing[key] = self._missing.get(key, rows) - len(scores)
        if self._missing[key]:
            return None
        del self._missing[key]
        path.unlink()  # the open table keeps what it holds
        return table

    def _heads(self, variant: str, member: int) -> ScoreHeads:
        asked, more = self.run.config.mitigation, tuple[Any, ...]()
        classes = self.examples.several or self.examples.classes
        if asked and self.rule and self.groups:
            counts = tuple(map(tuple, self.groups.counts.tolist()))
            more = (str(asked.attribute), self.groups.values, counts)
        return ScoreHeads(variant, member, classes, asked.technique if asked else "", *more)


def _test_codes(
    examples: AuditedExamples, attribute: str, values: tuple[str, ...]
) -> NDArray[np.int64]:
    column = examples.table[attribute]
    unknown = sorted(set(column.unique().to_list()) - set(values))
    if unknown:
        raise DataError(
            "mitigation decides by the head of each test example's group, and training had none of "
            f"{printable(group_key([(attribute, unknown[0])]))}; leave out these examples, or "
            "choose DI2"
        )
    codes = column.replace_strict(list(values), list(range(len(values))), return_dtype=pl.Int64)
    return codes.to_numpy()


def predict_shard(run: Run, shard: Shard, graph: Path | None = None) -> None:
    """Run every member of a shard on the test examples; a variant's file is written when whole.

    Args:
        run: Whose members they are.
        shard: Which members.
        graph: The network as an `Architecture`, for members that are weights alone.
    """
    examples = AuditedExamples.read(run.examples, split="test")
    config, shown = run.config, examples.pictured
    outputs = network_outputs(config, AuditedExamples.read(run.examples, images=False))
    # Scores of groups: a rule decides, and ranks none.
    heads = not examples.several and outputs != len(examples.classes)
    several = tuple(config.label.several.values())
    best = 1 if heads or several else kept_classes(outputs)
    network = replace(network_of(config, outputs), graph=graph, best=best, thresholds=several)
    members = _members(run, shard)
    cells = [(name, place) for name, own in members.items() for place in range(len(own))]
    files = [run.member(name, members[name][place]) for name, place in cells]
    keep_scores = "full" if config.keeps_every_score else config.keep_scores
    columns = {
        name: _Column.empty(
            (len(shown.ids), len(own)), network, scores=bool(keep_scores) and not heads
        )
        for name, own in members.items()
    }
    progress.start("predict", len(files) * len(shown.ids))
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        images = Path(folder, "images.npy")
        decode_images_to(images, shown)
        every, used = EveryScore.open(run, examples, Path(folder)), Workers()
        both = BothDevices(
            {
                at: (name, files[at])
                for at, (name, place) in enumerate(cells)
                if members[name][place] == 0 and runs_on_gpu(files[at], network)
            }
        )
        for answers in predict_members(files, images, network, keep_scores=keep_scores, used=used):
            name, place = cells[answers.member]
            both.take(answers, len(shown.ids))
            columns[name].take(answers, place)
            if every.wanted:
                columns[name].decide(every.take(name, members[name][place], answers), place)
            progress.advance("predict", len(answers.predicted))
            if columns[name].missing == 0:
                path, partner = run.predictions(name, shard.index), config.variant(name).paired_with
                _write(path, name, members[name], examples, columns.pop(name), partner)
        say("predict", used.kinds.values())  # what follows may take as long
        differences = list(both.compare(images, network))
        say("predict", differences)
        if shard.index == 0:
            began = time.perf_counter()
            _predict_networks(run, examples, images, network, every)
            say("predict", [f"exported models checked in {time.perf_counter() - began:.1f} s"])
            began = time.perf_counter()
            _measure(run, [*members], network, np.load(images, mmap_mode="r"))
            say("predict", [f"sizes and latencies taken in {time.perf_counter() - began:.1f} s"])
    more = {f"{one.name} on both devices": one.record() for one in differences}
    leave_workers(run, "predict", shard.index, used, more)


def _predict_networks(
    run: Run, examples: AuditedExamples, images: Path, network: Network, every: EveryScore
) -> None:
    """Predict in torch with the first member of each variant that others were exported from."""
    bases = list(dict.fromkeys(exported_from(run.config).values()))
    files = [run.member(name, 0) for name in bases]
    trained = replace(network, graph=None, as_trained=True, best=1)
    shown = len(examples.image_ids)
    columns = {name: _Column.empty((shown, 1), trained, scores=False) for name in bases}
    progress.start("check exported models", len(files) * shown)
    ruled = every.rule is not None
    for answers in predict_members(files, images, trained, keep_scores="full" if ruled else False):
        column = columns[bases[answers.member]]
        column.take(answers, 0)
        if ruled:
            column.decide(every.take(bases[answers.member], 0, answers, kept=False), 0)
        progress.advance("check exported models", len(answers.predicted))
    for name, column in columns.items():
        _write(network_predictions(run, name), name, (0,), examples, column)


def _measure(run: Run, names: list[str], network: Network, images: PixelArray) -> None:
    """Measure sizes and latencies of first members: in a file apart, since times always differ."""
    progress.start("measure latency", len(names))
    by_variant = {}
    members = [run.member(name, 0) for name in names]
    # Before: they would slow what is timed.
    sizes = list(map_in_order(file_sizes, members, cores()))
    with ExitStack() as pools:
        measure = measure_latencies
        if needs_torch(members, network):  # which workers share
            pool = pools.enter_context(worker_pool(1))
            measure = partial(_measure_in, pool)
        elif network.limits is not None:
            measure = partial(latencies_apart, pools.enter_context(runtime_process()))
        for name, member, size in zip(names, members, sizes, strict=True):
            by_variant[name] = size | measure(member, network, np.asarray(images[:64]))
            progress.advance("measure latency")
    write_json(run.costs, by_variant)
    run.publish(run.costs)


def _measure_in(
    pool: WorkerPool, member: Path, network: Network, images: PixelArray
) -> dict[str, Any]:
    task = f"measuring {member.parent.name}/{member.name}"
    return pool.submit(measure_latencies, member, network, images, task=task).result()


@dataclass
class _Column:
    """The predictions of one variant while they arrive."""

    best: NDArray[np.unsignedinteger[Any]]  # class ids, shape (N, K, `Network.best`), or (N, K, L)
    missing: int
    scores: NDArray[np.float16] | None  # shape (N, K), or (N, K, L)
    several: bool  # labels, which are rows once written
    runtimes: set[str] = field(default_factory=set)

    @classmethod
    def empty(cls, shape: tuple[int, int], network: Network, *, scores: bool) -> _Column:
        labels = len(network.thresholds)
        best = np.zeros((*shape, labels or network.best), smallest_type(network.classes))
        kept = np.zeros(best.shape if labels else shape, np.float16) if scores else None
        return cls(best, shape[0] * shape[1], kept, bool(labels))

    def take(self, answers: MemberAnswers, place: int) -> None:
        self.best[answers.rows, place] = answers.best
        if self.scores is not None and answers.scores is not None:
            self.scores[answers.rows, place] = answers.scores
        self.missing -= len(answers.best)
        self.runtimes.add(answers.runtime)

    @property
    def predicted(self) -> NDArray[np.unsignedinteger[Any]]:
        """Class ids of each row, shape (N, K); of several labels a row each, (N * L, K)."""
        return label_rows(self.best) if self.several else self.best[..., 0]

    @property
    def row_scores(self) -> NDArray[np.float16] | None:
        """Probabilities of what is predicted, as `predicted`; None where they are not kept."""
        return self.scores if self.scores is None or not self.several else label_rows(self.scores)

    @property
    def top5(self) -> NDArray[np.unsignedinteger[Any]] | None:
        """The five classes of the highest scores, where they are kept."""
        return None if self.several or self.best.shape[2] != TOP else self.best

    def decide(self, predicted: NDArray[np.int64] | None, place: int) -> None:
        """Replace the outputs of the highest score by the class ids of a rule."""
        if predicted is not None:
            self.best[:, place, 0] = predicted


def _write(
    path: Path,
    variant: str,
    members: Sequence[int],
    examples: AuditedExamples,
    column: _Column,
    paired_with: str = "",
) -> None:
    predictions = Predictions(
        variant=variant,
        example_ids=tuple(examples.ids),
        members=tuple(members),
        classes=examples.classes,
        predicted=column.predicted,
        paired_with=paired_with,
        scores=column.row_scores,
        runtimes=tuple(sorted(column.runtimes)),
        top5=column.top5,
    )
    with written(path) as temporary:
        predictions.write(temporary)
