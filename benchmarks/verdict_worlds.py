"""Worlds with known truth, of which `verdict_draws.py` draws audits without any code of scotoma.

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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

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


# Why these numbers: each world gives the shares of PASS that version 0.1.0 was measured to give
# harmless variants. What moves them: the error of the easiest class and of the smallest group
# decides whether ten effective events are reached, the hardest class how much flips move a recall,
# the effects of training runs how far retrained models lie apart.

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
