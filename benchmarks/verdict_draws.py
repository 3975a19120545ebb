"""Audits drawn from the worlds of `verdict_worlds.py`, each with its truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri, owens_t
from verdict_worlds import F4, Compression, Floats, Harm, Ints, World

GRID = 1_000  # points that stand for the difficulties of one Beta distribution
LIMIT_RELATIVE, LIMIT_ABSOLUTE, LIMIT_CLASS = 0.2, 0.005, 0.01  # of the default rules
FAVOURITE = 0.8  # share of an example's errors that go to its favourite wrong class


@dataclass(frozen=True)
class Drawn:
    """One audit.

    Attributes:
        labels: Class ids, shape (N,).
        attributes: Number of the value of each attribute, shape (A, N).
        dense: Class ids of the dense members, shape (N, K).
        compressed: Class ids of the compressed members, shape (N, K).
        dense_rates: True error of each cell among dense models, shape (M,): those of the audit
            where there is one, else all that could be trained.
        compressed_rates: The same of compressed models.
    """

    labels: npt.NDArray[np.unsignedinteger]
    attributes: Ints
    dense: npt.NDArray[np.unsignedinteger]
    compressed: npt.NDArray[np.unsignedinteger]
    dense_rates: Floats
    compressed_rates: Floats


def draw(world: World, compression: Compression, harm: Harm, members: int, seed: int) -> Drawn:
    """Draw one audit; the same arguments give the same audit.

    With one member a side the truth is that of these two models: harm is then planted in them.
    """
    rng = np.random.default_rng([seed, members])
    labels, attributes, cell = _test_set(world, rng)
    cells, spread = world.cells, world.spread
    difficulty = rng.beta(*_beta(cells.error[cell], world.concentration))
    cutoff = ndtri(difficulty).astype(F4)
    follows = copula(world, compression.flips) if compression.flips is not None else 0.0
    dense_runs, compressed_runs = _runs(world, members, follows, rng)
    chance = rng.standard_normal((world.rows, members), F4) / F4(spread)
    dense_wrong = chance - dense_runs[cell] < cutoff[:, None]
    wrong_class = _wrong_class(world, labels, rng)
    favour = rng.random((world.rows, members), F4)
    dense = wrong_class(dense_wrong, favour)

    shift = np.zeros(len(cells.error))
    truths = [_truth(world, shift, runs, members) for runs in (dense_runs, compressed_runs)]
    if harm.where == "spread":
        shift = _spread(world, float(harm.loss))
        truths[1] = _truth(world, shift, compressed_runs, members)
    elif harm.where != "nothing":
        harmed, amount = _planted(world, harm, labels, attributes, dense_wrong, truths)
        step = _solve(world, harmed, amount, truths[0], compressed_runs, members)
        shift = np.where(harmed, step, 0.0)
        truths[1] = _truth(world, shift, compressed_runs, members)
    if compression.paired:
        own = math.sqrt(1 - follows**2)
        fresh = rng.standard_normal((world.rows, members), F4) / F4(spread)
        chance = F4(follows) * chance + F4(own) * fresh
    else:
        chance = rng.standard_normal((world.rows, members), F4) / F4(spread)
        favour = rng.random((world.rows, members), F4)
    moved = cutoff + shift.astype(F4)[cell]
    compressed_wrong = chance - compressed_runs[cell] < moved[:, None]
    return Drawn(labels, attributes, dense, wrong_class(compressed_wrong, favour), *truths)


@cache
def copula(world: World, flips: float) -> float:
    """Correlation of z at which dense and compressed members disagree on a share of examples.

    Both err with chance pi, apart with 4 T(Phi^-1(pi), sqrt((1 - rho) / (1 + rho))), T Owen's
    function: Owen (1956), Annals of Mathematical Statistics 27:1075-1090.
    """
    grid, cells = _grid(world), world.cells

    def excess(slope: float) -> float:
        apart = 4 * owens_t(np.maximum(grid, -40.0), slope).mean(axis=1)
        return float(cells.shares @ apart) - flips

    slope = brentq(excess, 1e-9, 1.0)
    return (1 - slope**2) / (1 + slope**2)


def run_shifts(world: World, runs: int, follows: float, seed: int) -> tuple[Floats, Floats]:
    """Effects of training runs on the cells, dense and compressed, shape (M, runs) each."""
    return _runs(world, runs, follows, np.random.default_rng(seed))


def rates_of(world: World, shift: Floats, effects: Floats) -> Floats:
    """True error of each cell in models whose training runs had some effects, shape (M, runs)."""
    grid = _grid(world)
    return np.stack(
        [ndtr(world.spread * (grid + (shift + effect)[:, None])).mean(axis=1)
         for effect in effects.T], axis=1,
    )  # fmt: skip


def step_of(world: World, harmed: npt.NDArray[np.bool_], loss: float) -> float:
    """The step of the thresholds that raises the error of some cells by a loss, over all runs."""
    nothing = np.zeros((len(harmed), 1))
    return _solve(world, harmed, loss, _truth(world, nothing[:, 0], nothing, 2), nothing, 2)


@cache
def _spread(world: World, loss: float) -> Floats:
    """Steps by which every class loses or gains as much, as many classes the one as the other."""
    cells, steps = world.cells, np.zeros(len(world.cells.error))
    loses: dict[float, bool] = {}
    for class_id, error in enumerate(world.class_error):
        loses[error] = not loses.get(error, False)
        alike = cells.places[:, 0] == world.class_error.index(error)
        step = _class_step(world, tuple(alike.tolist()), loss if loses[error] else -loss)
        steps[cells.places[:, 0] == class_id] = step
    return steps


@cache
def _class_step(world: World, cells: tuple[bool, ...], loss: float) -> float:
    return step_of(world, np.array(cells), loss)


def _test_set(
    world: World, rng: np.random.Generator
) -> tuple[npt.NDArray[np.unsignedinteger], Ints, Ints]:
    """Labels, values of attributes, and the cell of each example."""
    kind = np.uint8 if len(world.class_rows) <= 256 else np.uint16
    labels = np.repeat(np.arange(len(world.class_rows)), world.class_rows)
    attributes = np.stack(
        [rng.permutation(np.repeat(np.arange(len(own.rows)), own.rows)) for own in world.attributes]
    )
    cell = labels
    for own, values in zip(world.attributes, attributes, strict=True):
        cell = cell * len(own.values) + values
    return labels.astype(kind), attributes, cell


def _runs(
    world: World, members: int, follows: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Effects of the training runs on z, by cell and member, dense and compressed."""
    places = world.cells.places
    sds = [world.class_run_sd, *(world.group_run_sd for _ in world.attributes)]
    effects = []
    for _ in range(2):
        effect = np.tile(world.run_sd * rng.standard_normal(members), (len(places), 1))
        for column, sd in zip(places.T, sds, strict=True):
            effect += sd * rng.standard_normal((column.max() + 1, members))[column]
        effects.append(effect / world.spread)
    dense, fresh = effects
    return dense, follows * dense + math.sqrt(1 - follows**2) * fresh


def _wrong_class(
    world: World, labels: npt.NDArray[np.unsignedinteger], rng: np.random.Generator
) -> Callable[[npt.NDArray[np.bool_], npt.NDArray[np.float32]], npt.NDArray[np.unsignedinteger]]:
    """Predictions from errors: each example has a favourite wrong class and a second one."""
    n_classes = len(world.class_rows)
    offsets = rng.integers(1, n_classes, (2, world.rows))

    def predicted(
        wrong: npt.NDArray[np.bool_], favour: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.unsignedinteger]:
        ids = np.repeat(labels[:, None], wrong.shape[1], axis=1)
        row, member = np.nonzero(wrong)
        second = (favour[row, member] > FAVOURITE).astype(np.intp)
        ids[row, member] = (labels[row].astype(np.intp) + offsets[second, row]) % n_classes
        return ids

    return predicted


def _beta(mean: Floats, concentration: float) -> tuple[Floats, Floats]:
    return concentration * mean, concentration * (1 - mean)


@cache
def _grid(world: World) -> Floats:
    """Phi^-1 of the difficulties of each cell at equally likely points, shape (M, GRID)."""
    means, place = np.unique(world.cells.error, return_inverse=True)
    points = (np.arange(GRID) + 0.5) / GRID
    levels = []
    for mean in means:
        difficulty = betaincinv(*_beta(np.asarray(mean), world.concentration), points)
        levels.append(difficulty * mean / difficulty.mean())  # what the midpoints leave out
    return np.maximum(ndtri(np.minimum(np.stack(levels), 1 - 1e-12)), -40.0)[place]


def _truth(world: World, shift: Floats, runs: Floats, members: int) -> Floats:
    """True error of each cell: in this model where there is one, else over all training runs."""
    if members == 1:
        return rates_of(world, shift, runs)[:, 0]
    return ndtr(_grid(world) + shift[:, None]).mean(axis=1)


def _planted(
    world: World,
    harm: Harm,
    labels: npt.NDArray[np.unsignedinteger],
    attributes: Ints,
    dense_wrong: npt.NDArray[np.bool_],
    truths: list[Floats],
) -> tuple[npt.NDArray[np.bool_], float]:
    """Which cells are harmed, and by how much their error rises."""
    cells = world.cells
    if harm.where == "all":
        harmed, rows = np.ones(len(cells.error), dtype=bool), labels == labels
    elif harm.where == "class":
        rarest = world.rarest_classes(harm.classes)
        harmed, rows = np.isin(cells.places[:, 0], rarest), np.isin(labels, rarest)
    else:
        attribute, value = world.rarest()
        harmed = cells.places[:, 1 + attribute] == value
        rows = attributes[attribute] == value
        if world.binary:
            harmed, rows = harmed & (cells.places[:, 0] == 1), rows & (labels == 1)
    if not isinstance(harm.loss, str):
        return harmed, harm.loss
    dense = cells.mean(truths[0], harmed)
    limit = LIMIT_CLASS if harm.where == "class" else max(LIMIT_RELATIVE * dense, LIMIT_ABSOLUTE)
    if harm.loss == "margin":
        n = int(rows.sum())
        p = max(float(dense_wrong[rows].mean()), 1 / (n + 2))
        limit = max(limit, 2 * math.sqrt(p * (1 - p) / n))
    if harm.where == "group":
        return harmed, limit
    # Recall lost beyond the accuracy lost, of which the class itself is a part.
    others = float(cells.shares[~harmed] @ (truths[1] - truths[0])[~harmed])
    return harmed, (limit + others) / (1 - cells.shares[harmed].sum())


def _solve(
    world: World,
    harmed: npt.NDArray[np.bool_],
    amount: float,
    dense: Floats,
    runs: Floats,
    members: int,
) -> float:
    """The step of the thresholds that raises the error of the harmed cells by an amount."""
    shares = world.cells.shares[harmed] / world.cells.shares[harmed].sum()
    before = float(shares @ dense[harmed])
    grid = _grid(world)[harmed]
    scale = world.spread if members == 1 else 1.0
    effect = runs[harmed, :1] if members == 1 else 0.0

    def rise(step: float) -> float:
        after = ndtr(scale * (grid + effect + step)).mean(axis=1)
        return float(shares @ after) - before - amount

    return float(brentq(rise, -1.0, 8.0))
