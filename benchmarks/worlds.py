"""Worlds with known truth, and the audits that are drawn from them without any code of scotoma.

Every example x has a difficulty pi_x, the chance that a dense model errs on it, from a Beta
distribution whose mean is the error of its class and attributes. Member m errs on x where

    z_xm < Phi^-1(pi_x),   z_xm = (e_xm - r_m) / sqrt(1 + s^2),

e_xm standard normal, r_m the effect of the training run on the class and the attribute values of
x, with variance s^2 = `run_sd`^2 + `class_run_sd`^2 + one `group_run_sd`^2 an attribute. The
difficulty is therefore the error exactly, averaged over training runs.

An int8 member follows its dense member: a Gaussian copula correlates z of both (e and r alike) as
much as the share of flipped predictions asks. A retrained member has z of its own. Harm moves the
threshold Phi^-1(pi_x) of the compressed members on the harmed examples, so that hard examples
suffer first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri, owens_t
from scipy.stats import binomtest

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
F4 = np.float32
HARDEST = 0.95  # no class of examples errs more often


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """An attribute of the examples, independent of class and of other attributes.

    Attributes:
        name: Its name.
        values: Its values.
        rows: Examples of each value; they sum to those of the world.
        factors: What each value multiplies the error with.
    """

    name: str
    values: tuple[str, ...]
    rows: tuple[int, ...]
    factors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class World:
    """A test set, the models that are trained for it, and how they vary.

    Attributes:
        name: Its name.
        class_rows: Examples of each class.
        class_error: Mean error of each class, fractions, before the factors of attributes.
        attributes: What groups are made of; at least one.
        binary: Class 1 is named as the positive class.
        concentration: a + b of the Beta distributions: the smaller, the more alike members err.
        run_sd: Effect of a training run on all examples, on the scale of z.
        class_run_sd: Effect of a training run on one class beyond that.
        group_run_sd: Effect of a training run on one value of an attribute beyond that.
    """

    name: str
    class_rows: tuple[int, ...]
    class_error: tuple[float, ...]
    attributes: tuple[Attribute, ...]
    binary: bool = False
    concentration: float = 1.0
    run_sd: float = 0.05
    class_run_sd: float = 0.05
    group_run_sd: float = 0.05

    @property
    def rows(self) -> int:
        """Examples N."""
        return sum(self.class_rows)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their ids."""
        width = len(str(len(self.class_rows) - 1))
        return tuple(f"class{place:0{width}}" for place in range(len(self.class_rows)))

    @property
    def spread(self) -> float:
        """Standard deviation of e - r, the run effects included."""
        parts = self.run_sd, self.class_run_sd
        groups = len(self.attributes) * self.group_run_sd**2
        return math.sqrt(1 + sum(part**2 for part in parts) + groups)

    @cached_property
    def cells(self) -> Cells:
        """Every combination of a class and a value of each attribute."""
        sizes = [len(self.class_rows), *(len(own.values) for own in self.attributes)]
        places = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)
        places = places.reshape(-1, len(sizes))
        shares = np.array(self.class_rows)[places[:, 0]] / self.rows
        error = np.array(self.class_error)[places[:, 0]]
        for column, own in enumerate(self.attributes, 1):
            shares = shares * np.array(own.rows)[places[:, column]] / self.rows
            error = error * np.array(own.factors)[places[:, column]]
        return Cells(places, shares, np.minimum(error, HARDEST))

    def rarest_classes(self, number: int) -> Ints:
        """The classes with the fewest examples, the first of those with as many."""
        return np.argsort(self.class_rows, kind="stable")[:number]

    def rarest(self) -> tuple[int, int]:
        """Attribute and value with the fewest examples, as numbers."""
        smallest = [min(own.rows) for own in self.attributes]
        attribute = smallest.index(min(smallest))
        return attribute, self.attributes[attribute].rows.index(smallest[attribute])


@dataclass(frozen=True)
class Cells:
    """Combinations of a class and of attribute values.

    Attributes:
        places: Number of the class, then of the value of each attribute, shape (M, 1 + A).
        shares: Share of the examples, shape (M,).
        error: Mean error of dense members, shape (M,).
    """

    places: Ints
    shares: Floats
    error: Floats

    def mean(self, rates: Floats, mask: npt.NDArray[np.bool_]) -> float:
        """The rate of the cells of a mask together."""
        return float(rates[mask] @ self.shares[mask] / self.shares[mask].sum())


@dataclass(frozen=True, kw_only=True)
class Compression:
    """How the compressed members come about.

    Attributes:
        name: Its name.
        flips: Expected share of changed predictions; None for members trained again.
    """

    name: str
    flips: float | None

    @property
    def paired(self) -> bool:
        """Each compressed member is made from a dense one."""
        return self.flips is not None


@dataclass(frozen=True, kw_only=True)
class Harm:
    """What compression harms.

    Attributes:
        name: Its name.
        where: `class` for the recall of the rarest class, `group` for the error of the rarest group
            (its false negatives in binary worlds), `spread` for half of the classes, while the
            other half gains as much, `all` for every error, or `nothing`.
        loss: By how much that rate rises, a fraction; `limit` for exactly the limit of the default
            rule; `margin` for the larger of it and 2 sqrt(p (1-p) / n), p the dense rate that the
            audit measures, n the examples at risk.
        classes: How many classes lose it, the rarest first.
    """

    name: str
    where: str = "nothing"
    loss: float | str = 0.0
    classes: int = 1

    def fits(self, world: World) -> bool:
        """Whether a world has classes enough, without most of them being harmed."""
        many = len(world.class_rows)
        return many > 20 if self.where == "spread" else self.classes <= max(1, many // 5)


# Errors as of a ResNet: of CIFAR-10's classes the car is easiest and the cat hardest.
CIFAR10 = World(
    name="cifar10",
    class_rows=(1000,) * 10,
    class_error=(0.040, 0.0125, 0.065, 0.150, 0.045, 0.100, 0.030, 0.033, 0.025, 0.028),
    attributes=(Attribute(name="source", values=("web", "photo"), rows=(9000, 1000),
                          factors=(1.0, 1.2)),),
    concentration=1.0, run_sd=0.05, class_run_sd=0.07, group_run_sd=0.03,
)  # fmt: skip
# Hair colour: a rare positive class, two groups of 500 in which it is missed more often.
CELEBA = World(
    name="celeba",
    class_rows=(17000, 3000),
    class_error=(0.03, 0.145),
    attributes=(
        Attribute(name="sex", values=("female", "male"), rows=(12000, 8000), factors=(1.0, 1.1)),
        Attribute(name="hat", values=("none", "cap", "hood"), rows=(19000, 500, 500),
                  factors=(1.0, 1.2, 1.2)),
    ),
    binary=True, concentration=2.0, run_sd=0.05, class_run_sd=0.05, group_run_sd=0.03,
)  # fmt: skip
DEVICES = Attribute(
    name="device", values=("phone", "camera", "scanner"), rows=(1800, 100, 100),
    factors=(1.0, 1.25, 1.25),
)  # fmt: skip
SITES = Attribute(name="site", values=("north", "south"), rows=(1000, 1000), factors=(1.0, 1.1))
TEAM = World(
    name="team", class_rows=(1000, 1000), class_error=(0.07, 0.09), attributes=(SITES, DEVICES),
    binary=True, concentration=1.5, run_sd=0.05, class_run_sd=0.05, group_run_sd=0.03,
)  # fmt: skip
TEAM5 = World(
    name="team5", class_rows=(400,) * 5, class_error=(0.038, 0.051, 0.06, 0.077, 0.094),
    attributes=(SITES, replace(DEVICES, factors=(1.0, 1.5, 1.5))),
    concentration=1.5, run_sd=0.05, class_run_sd=0.05, group_run_sd=0.03,
)  # fmt: skip
IMAGENET = World(
    name="imagenet", class_rows=(50,) * 1000,
    class_error=tuple(0.06 + 0.04 * (place % 10) for place in range(1000)),
    attributes=(Attribute(name="source", values=("web", "photo"), rows=(45000, 5000),
                          factors=(1.0, 1.2)),),
    concentration=1.0, run_sd=0.03, class_run_sd=0.10, group_run_sd=0.02,
)  # fmt: skip
WORLDS = {world.name: world for world in (CIFAR10, CELEBA, TEAM, TEAM5, IMAGENET)}
COMPRESSIONS = {
    each.name: each
    for each in (
        Compression(name="int8-0.1%", flips=0.001),
        Compression(name="int8-1%", flips=0.01),
        Compression(name="retrained", flips=None),
    )
}
HARMS = {
    harm.name: harm
    for harm in (
        Harm(name="none"),
        Harm(name="class-5", where="class", loss=0.05),
        Harm(name="class-20", where="class", loss=0.20),
        Harm(name="20-classes-15", where="class", loss=0.15, classes=20),
        Harm(name="100-classes-5", where="class", loss=0.05, classes=100),
        Harm(name="spread-at-limit", where="spread", loss=0.01),
        Harm(name="group-5", where="group", loss=0.05),
        Harm(name="class-at-limit", where="class", loss="limit"),
        Harm(name="group-at-limit", where="group", loss="limit"),
        Harm(name="class-at-margin", where="class", loss="margin"),
        Harm(name="group-at-margin", where="group", loss="margin"),
    )
}
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


def wilson(count: int, n: int) -> str:
    """A share with Wilson's 95% interval.

    >>> wilson(81, 263)
    '.308 [.255, .366]'
    """
    ends = binomtest(count, n).proportion_ci(method="wilson")
    return "{} [{}, {}]".format(
        *(f"{one:.3f}".removeprefix("0") for one in (count / n, ends.low, ends.high))
    )
