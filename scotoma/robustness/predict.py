"""What do the members of a run say of corrupted pictures and of other test sets?"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from numpy.typing import NDArray

from scotoma import storage
from scotoma.config.robustness import OtherTestSet
from scotoma.corruptions import Profile, corrupt
from scotoma.datasets import AuditedExamples
from scotoma.datasets.examples import stratified
from scotoma.datasets.image_decoding import decode_rows, image_shape
from scotoma.datasets.image_files import SUFFIXES, read_images
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.label_pairs import label_rows
from scotoma.errors import ConfigError, DataError
from scotoma.inference.engines import Network, runs_on_gpu
from scotoma.inference.members import graph_files
from scotoma.inference.population import BATCHES, images_at_once, predict_members, sharers
from scotoma.numbers.inputs import Array, Floats, Ints
from scotoma.predictions import Predictions, kept_classes, smallest_type
from scotoma.printable import nearest, printable
from scotoma.processes import progress, worker_pool
from scotoma.processes.machine import cores, free_gpu_bytes, versions
from scotoma.processes.untrusted import table_apart
from scotoma.readers.tables import scan_table
from scotoma.robustness.confidence import energy
from scotoma.robustness.plan import (
    CorruptedCondition,
    RobustnessPlan,
    checkpoints_file,
    refuse_impossible,
    set_file,
    suite_of,
)
from scotoma.run import Run, read_record
from scotoma.run.shards import shards
from scotoma.run.sources import Sources, examine
from scotoma.storage.files import written
from scotoma.training.checkpoints import checkpoint_name, checkpoint_path, checkpoint_steps

# What members say of some pictures, by column of its file: `predicted` class ids, shape (n, M);
# `top5` whether the label is among five, `score` the probability of the predicted class, `energy`
# minus the energy, the same shape; beside corrupted ones `change` in grey levels and structural
# `similarity`, shape (n,). Of several labels each has a row, those of a picture one after another.
Columns: TypeAlias = dict[str, Array]


def said_by(
    members: Sequence[Path],
    images: NDArray[np.uint8] | Path,
    network: Network,
    *,
    sure: bool = False,
    labels: Ints | None = None,
    among: Ints | None = None,
    workers: int | None = None,
) -> Columns:
    """Run every member on every picture.

    Args:
        members: Their files.
        images: The pictures, or a .npy file of them.
        network: What the members have in common.
        sure: Also how sure they are: `score` and `energy`, over all classes.
        labels: Class ids, which fill `top5` where the network tells several classes.
        among: Class ids among which they choose; None for all.
        workers: As for `predict_members`.
    """
    pixels = np.load(images, mmap_mode="r") if isinstance(images, Path) else images
    several = len(network.thresholds)
    shape = (len(pixels), len(members), *([several] if several else []))
    columns: Columns = {"predicted": np.empty(shape, smallest_type(network.classes))}
    if sure:
        columns |= {name: np.full(shape, np.nan, np.float32) for name in ("score", "energy")}
    if labels is not None and network.best > 1:
        columns["top5"] = np.empty(shape, np.bool_)
    if among is not None:
        network = replace(network, best=network.classes)
    for answers in predict_members(
        members, images, network, workers=workers, keep_scores="full" if sure else False
    ):
        cell, best = (answers.rows, answers.member), answers.best
        if among is not None:
            first = np.isin(best, among).argmax(axis=1)
            best = np.take_along_axis(best, first[:, None], axis=1)
        columns["predicted"][cell] = best if several else best[:, 0]
        if (every := answers.every_score) is not None:
            columns["score"][cell] = answers.scores
            columns["energy"][cell] = np.logaddexp(0, every) if several else energy(every)
        if labels is not None and "top5" in columns:
            columns["top5"][cell] = (best == labels[answers.rows][:, None]).any(axis=1)
    return {name: label_rows(own) for name, own in columns.items()} if several else columns


@dataclass(frozen=True)
class Bench:
    """Members of an audit that are run on pictures.

    Attributes:
        run: The run.
        members: Their files.
        network: What they have in common.
    """

    run: Run
    members: tuple[Path, ...]
    network: Network

    @classmethod
    def of(cls, run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> Bench:
        """The members of all variants that a plan names."""
        from scotoma.inference.members import labels_network

        members = (run.member(name, k) for name, many in plan.members.items() for k in range(many))
        (every,) = shards(run.config.most_models, 1)
        graphs = graph_files(run, every)
        network, graph = labels_network(run.config, examples), graphs[0] if graphs else None
        best = 1 if examples.several else kept_classes(len(examples.classes))
        return cls(run, tuple(members), replace(network, graph=graph, best=best))

    @cached_property
    def _files(self) -> list[Path]:
        return [*self.members, *([] if self.network.graph is None else [self.network.graph])]

    @cached_property
    def _decides(self) -> list[object]:
        return [versions(), *self.run.mirror.digests(self._files).values()]

    def _made_with(self, more: tuple[object, ...]) -> str:
        content = json.dumps([*self._decides, *more], default=str)
        return hashlib.sha256(content.encode()).hexdigest()

    def is_due(self, name: str, path: Path, *more: object) -> bool:
        """Whether `step` would have anything to do."""
        made_with = self._made_with(more)
        return self.run.is_due(f"robustness-{name}", [path], made_with=made_with, measures=False)

    @contextmanager
    def step(self, name: str, path: Path, *more: object) -> Iterator[bool]:
        """A step that leaves a file of what the members say; `more` decides it beside them."""
        with self.run.step(
            f"robustness-{name}", [path], made_with=self._made_with(more),
            opens=[self.run.examples, *self._files], measures=False,
        ) as due:  # fmt: skip
            yield due


def write(path: Path, ids: Sequence[str], columns: Columns) -> None:
    """Write what members say: a row an example."""
    with written(path) as temporary:
        pl.DataFrame({"example_id": ids} | columns).write_parquet(temporary)


@dataclass(frozen=True)
class Suite:
    """What every task of the suite shares.

    Attributes:
        members: Files of the members of all variants.
        images: The clean pictures, a .npy file of shape (N, 3, H, W).
        example_ids: Their ids, which decide the random numbers.
        labels: Their class ids, shape (N,); of several labels 0 and 1, shape (N, L).
        network: What the members have in common.
        profile: The corruptions.
        seed: Of the suite; draws count on from it.
        confidence: Whether members say how sure they are.
    """

    members: tuple[Path, ...]
    images: Path
    example_ids: tuple[str, ...]
    labels: Ints
    network: Network
    profile: Profile
    seed: int
    confidence: bool

    def __call__(self, condition: CorruptedCondition, rows: slice) -> Columns:
        """Corrupt some pictures and run every member on them."""
        clean = np.ascontiguousarray(np.load(self.images, mmap_mode="r")[rows])
        last = np.ascontiguousarray(clean.transpose(0, 2, 3, 1))
        worse = corrupt(
            last, self.example_ids[rows], condition.kind, condition.severity, self.profile,
            seed=self.seed + condition.draw,
        )  # fmt: skip
        worse = np.ascontiguousarray(worse.transpose(0, 3, 1, 2))
        columns = said_by(
            self.members, worse, self.network, sure=self.confidence, labels=self.labels[rows],
            workers=0,
        )  # fmt: skip
        measures = zip(("change", "similarity"), distortion(clean, worse), strict=True)
        each = len(self.network.thresholds) or 1
        return columns | {name: values.astype(np.float32).repeat(each) for name, values in measures}


def predict_corrupted(suite: Suite, conditions: Sequence[CorruptedCondition]) -> Iterator[Columns]:
    """Run every member under every condition.

    A corrupted picture lives in the memory of the worker that made it, until all members have seen
    it. Parts are cut by the size of the pictures alone, so that no machine decides a label.

    Args:
        suite: Members, pictures and corruptions.
        conditions: What is done to the pictures.

    Yields:
        The answers under each condition, in order, while later ones are being worked at.
    """
    pixels = np.load(suite.images, mmap_mode="r")
    step = BATCHES * images_at_once(pixels)
    parts = [slice(at, min(at + step, len(pixels))) for at in range(0, len(pixels), step)]
    progress.start("predict corrupted pictures", len(conditions) * len(pixels))
    tasks = ((condition, rows) for condition in conditions for rows in parts)
    answers = _answers(suite, tasks, len(conditions) * len(parts))
    for _ in conditions:
        whole = []
        for part in islice(answers, len(parts)):
            progress.advance("predict corrupted pictures", len(next(iter(part.values()))))
            whole.append(part)
        yield {name: np.concatenate([part[name] for part in whole]) for name in whole[0]}


def _answers(
    suite: Suite, tasks: Iterable[tuple[CorruptedCondition, slice]], count: int
) -> Iterator[Columns]:
    """Answers in the order of the tasks, of which few wait in line."""
    if suite.network.limits is not None:  # external models run in processes of their own
        yield from (suite(*task) for task in tasks)
        return
    on_gpu = any(runs_on_gpu(path, suite.network) for path in suite.members)
    workers = min(sharers(cores(), free_gpu_bytes()) if on_gpu else cores(), count)
    with worker_pool(workers, _itself, suite) as pool:
        waiting: deque[Future[Columns]] = deque()
        for condition, rows in tasks:
            task = f"predicting under {condition.kind}"
            waiting.append(pool.submit(Suite.__call__, condition, rows, task=task))
            if len(waiting) >= 3 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _itself(suite: Suite) -> Suite:
    return suite


def checkpoint_members(run: Run, count: int, members: int) -> dict[str, list[Path]]:
    """List the checkpoints of the dense members, by the name of their population.

    Args:
        run: The run.
        count: Of each member.
        members: Dense members that are run.

    Raises:
        ConfigError: The dense models were trained without.
    """
    record = run.member("dense", 0).with_suffix(".json")
    run.fetch(record)
    steps = checkpoint_steps(int(read_record(record)["steps"]), count)
    files = {
        checkpoint_name(step): [checkpoint_path(run, step, k) for k in range(members)]
        for step in steps
    }
    missing = [path for own in files.values() for path in own if not run.mirror.exists(path)]
    if missing:
        raise ConfigError(
            f"robustness.checkpoints are kept while dense models are trained, and those of this "
            f"audit were trained without {missing[0].parent.name}; leave checkpoints out, or "
            "choose another --out"
        )
    return files


def read_checkpoints(run: Run, names: Collection[str]) -> dict[str, Array]:
    """Read what some populations of checkpoints predict of the clean pictures.

    Args:
        run: The run.
        names: Of the populations, from `checkpoint_name`.

    Returns:
        By population: class ids, shape (n, members).
    """
    if not names:
        return {}
    frame = pl.read_parquet(checkpoints_file(run), columns=list(names))
    return {name: frame[name].to_numpy() for name in names}


def with_checkpoints(
    run: Run, plan: RobustnessPlan, names: Collection[str], labels: Ints
) -> RobustnessPlan:
    """Add to a plan, for every compressed variant, the dense models of the nearest clean accuracy.

    Args:
        run: Whose predictions on clean pictures are read.
        plan: What is run.
        names: Of the populations of checkpoints.
        labels: Class ids of the pictures that are corrupted, shape (n,).

    Returns:
        The plan, in which `checkpoints` is `dense` where none on the way is nearer.
    """
    predicted = read_checkpoints(run, names) | {
        name: Predictions.read(run.predictions(name)).predicted[plan.rows, :members]
        for name, members in plan.members.items()
    }
    accuracy = {name: float(np.mean(own == labels[:, None])) for name, own in predicted.items()}
    nearest = {
        variant: min(("dense", *names), key=lambda name: abs(accuracy[name] - accuracy[variant]))
        for variant in plan.members
        if variant != "dense"
    }
    return replace(plan, checkpoints=nearest)


AT_ONCE = 1_024  # pictures in memory
SHOWN = 5  # folders that a message lists


@dataclass(frozen=True, eq=False)
class SetPictures:
    """The pictures of a set.

    Attributes:
        names: Their files below the folder, sorted.
        labels: Their class ids, shape (n,); -1 of foreign pictures.
        present: Class ids that it has pictures of, ascending.
    """

    names: tuple[str, ...]
    labels: Ints
    present: Ints


def set_pictures(asked: OtherTestSet, classes: Sequence[str]) -> SetPictures:
    """List the pictures of a set; none is read.

    Args:
        asked: Its section of the configuration.
        classes: Class names by id, which models know.

    Raises:
        DataError: It is no folder or has no picture, or a folder in it is named as no class.
    """
    where = f"robustness.sets {asked.name!r}"
    if not storage.is_remote(asked.folder) and not os.path.isdir(asked.folder):
        raise DataError(f"{where}: {asked.folder} is not a folder; name one with a folder a class")
    names = sorted(
        name
        for name in storage.list_files(asked.folder)
        if name.lower().endswith(SUFFIXES) and (asked.foreign or "/" in name)
    )
    if not names:
        home = "" if asked.foreign else " in a folder for each class"
        raise DataError(
            f"{where}: {asked.folder} must hold images{home}, got none; correct the path"
        )
    if asked.foreign:
        return SetPictures(tuple(names), np.full(len(names), -1), np.zeros(0, np.int64))
    folders = [name.split("/", 1)[0] for name in names]
    known = dict.fromkeys(folders)
    called = {name: name for name in known} if asked.classes is None else _map(asked.classes)
    ids = {name: place for place, name in enumerate(classes)}
    if foreign := [name for name in known if called.get(name) not in ids]:
        first = foreign[0]
        wanted = called.get(first, first)
        more = f" and {len(foreign) - SHOWN:,} more" if len(foreign) > SHOWN else ""
        raise DataError(
            printable(
                f"{where}: folders must be named as classes, or be in the map `classes`, got "
                f"{', '.join(map(repr, foreign[:SHOWN]))}{more}{nearest(wanted, classes)}; rename "
                "them, or add them to the map"
            )
        )
    labels = np.array([ids[called[name]] for name in folders], np.int64)
    return SetPictures(tuple(names), labels, np.unique(labels))


def _map(place: str) -> dict[str, str]:
    """Read the map from a folder's name to a class's."""
    if not storage.is_remote(place) and not os.path.isfile(place):
        raise DataError(f"robustness.sets classes: {place} is not a file; correct the path")
    with storage.at_hand(place) as path:
        table = table_apart(scan_table, path, place, path=path, called=place)
    if missing := [name for name in ("folder", "class") if name not in table.columns]:
        raise DataError(
            f"{place} must have the columns folder and class, got "
            f"{printable(', '.join(table.columns))}; add {missing[0]}"
        )
    return dict(table.select("folder", "class").cast(pl.String).iter_rows())


def predict_set(
    bench: Bench, asked: OtherTestSet, examples: AuditedExamples, *, sure: bool
) -> Path:
    """Run every member on a set, some pictures at a time, and keep what they predict.

    Args:
        bench: The members.
        asked: The set.
        examples: The test examples, whose classes and size the models know.
        sure: Whether members also say how sure they are.

    Raises:
        DataError: As `set_pictures`, or an image cannot be decoded.
    """
    pictures = set_pictures(asked, examples.classes)
    files = storage.StampedFiles(asked.folder, pictures.names)
    digest = examine({"set": files}, Sources()).key("set")
    path = set_file(bench.run, asked)
    decides = digest, asked.mask, pictures.labels.tolist(), sure
    with bench.step(f"set-{asked.name}", path, *decides) as due:
        if due:
            size = _size(bench.run, examples)
            progress.start(f"predict {asked.name}", len(pictures.names))
            parts = []
            for start in range(0, len(pictures.names), AT_ONCE):
                names = list(pictures.names[start : start + AT_ONCE])
                images = read_images(asked.folder, names)
                pixels = decode_rows(pl.DataFrame({"example_id": names, "image": images}), size)
                among = pictures.present if asked.mask else None
                parts.append(said_by(bench.members, pixels, bench.network, sure=sure, among=among))
                progress.advance(f"predict {asked.name}", len(pixels))
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            write(path, pictures.names, {"label": pictures.labels} | columns)
    return path


def _size(run: Run, examples: AuditedExamples) -> ImageSize:
    """The size that models take, and how the test pictures were brought to it."""
    first = AuditedExamples.read(run.examples, only=examples.ids[:1])
    size = first.size or ImageSize()
    if size.height:
        return size
    shape = image_shape(first.table, size)
    return size._replace(height=shape[2], width=shape[3])


def plan_of(run: Run) -> tuple[RobustnessPlan, AuditedExamples]:
    """Choose conditions, examples and members.

    Returns:
        The plan, and all test examples, without images.

    Raises:
        ConfigError: As `suite_of`.
        DataError: As `find_conditions` and `set_pictures`.
    """
    from scotoma.datasets.image_decoding import image_shape

    config, asked = run.config, run.config.robustness
    assert asked is not None
    run.fetch(run.examples)
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    members = {
        variant.name: min(config.models_of(variant.name), asked.asked_members)
        for variant in config.resolved_variants
    }
    refuse_impossible(asked, members)
    paired = frozenset(variant.name for variant in config.resolved_variants if variant.paired)
    plan = RobustnessPlan(asked, None, (), (), 1, np.zeros(0, np.intp), members, paired=paired)
    if asked.files is not None:
        from scotoma.robustness.external import find_conditions, imported_models

        there = find_conditions(config, imported_models(run, members), examples)
        plan = replace(plan, kinds=there.kinds, severities=there.severities, rows=there.rows)
        return plan, examples
    for one in asked.sets:
        set_pictures(one, examples.classes)
    if asked.profile is not None or asked.confidence:  # clean pictures, beside those of the sets
        rows = stratified(examples, asked.asked_examples, config.population.seed)
        plan = replace(plan, rows=rows)
    if asked.profile is not None:
        first = AuditedExamples.read(run.examples, only=examples.ids[:1])
        shape = image_shape(first.table, first.size)
        chosen, kinds = suite_of(asked, min(shape[2:]))
        draws, severities = asked.corruption_seeds, asked.asked_severities
        plan = replace(plan, profile=chosen, kinds=kinds, severities=severities, draws=draws)
    return plan, examples


WINDOW = 7  # pixels of a side, as Wang et al. recommend for square windows
LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue in ITU-R BT.601
Pixels = npt.NDArray[np.uint8]


def distortion(clean: Pixels, corrupted: Pixels) -> tuple[Floats, Floats]:
    """Measure the change of every picture.

    Args:
        clean: Shape (n, 3, H, W).
        corrupted: The same pictures, corrupted.

    Returns:
        Mean absolute change in grey levels (0 to 255) and structural similarity (1 for the same
        picture), shape (n,) each.

    >>> same = np.zeros((1, 3, 8, 8), np.uint8)
    >>> [part.tolist() for part in distortion(same, same + np.uint8(4))]
    [[4.0], [0.2889...]]
    """
    change = np.abs(clean.astype(np.int16) - corrupted).mean(axis=(1, 2, 3))
    return np.asarray(change, np.float64), structural_similarity(clean, corrupted)


def structural_similarity(first: Pixels, second: Pixels) -> Floats:
    """Mean SSIM of each pair of pictures, on luma, in square windows of 7 pixels.

    Args:
        first: Shape (n, 3, H, W), at least 7 pixels a side.
        second: The same shape.

    Returns:
        Shape (n,), at most 1.

    References:
        Wang et al. (2004), IEEE Transactions on Image Processing 13:600-612.

    >>> picture = np.arange(192, dtype=np.uint8).reshape(1, 3, 8, 8)
    >>> structural_similarity(picture, picture).tolist()
    [1.0]
    """
    from scipy.ndimage import uniform_filter  # costly to import

    x, y = (np.einsum("nchw,c->nhw", p, LUMA) for p in (first, second))

    def local(values: Floats) -> Floats:
        edge = WINDOW // 2
        means = uniform_filter(values, size=(0, WINDOW, WINDOW), mode="nearest")
        return np.asarray(means[:, edge : -edge or None, edge : -edge or None])

    mean_x, mean_y = local(x), local(y)
    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    var_x = unbiased * (local(x * x) - mean_x**2)
    var_y = unbiased * (local(y * y) - mean_y**2)
    covariance = unbiased * (local(x * y) - mean_x * mean_y)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    below = (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return np.asarray((above / below).mean(axis=(1, 2)))
