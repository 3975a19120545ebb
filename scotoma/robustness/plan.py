"""Which pictures are corrupted, how, and which members see them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from scotoma.audit.robustness import ALL_KINDS
from scotoma.config import Robustness
from scotoma.corruptions import EXTENDED, FAMILIES, STANDARD, Profile, family_of, profile
from scotoma.errors import ConfigError
from scotoma.numbers import COMPRESSED, DENSE
from scotoma.numbers.inputs import Codes
from scotoma.printable import nearest
from scotoma.run import Run

if TYPE_CHECKING:
    from scotoma.config.robustness import OtherTestSet


Scalar = TypeVar("Scalar", bound=np.generic)
HALVED = 4  # models from which one half chooses a set and the other is judged on it


@dataclass(frozen=True)
class CorruptedCondition:
    """One corruption at one severity, drawn once.

    Attributes:
        kind: The corruption.
        severity: From 1 to 5.
        draw: Which of its draws, from 0.
    """

    kind: str
    severity: int
    draw: int = 0

    def __str__(self) -> str:
        """The name of its file and step."""
        return f"{self.kind}-{self.severity}" + (f"-{self.draw}" if self.draw else "")


@dataclass(frozen=True)
class RobustnessPlan:
    """What is run: conditions, examples and members.

    Attributes:
        config: The section of the configuration.
        profile: The corruptions that are made here; None where predictions are external, or other
            test sets alone are tried.
        kinds: Names of the corruptions.
        severities: Of each of them.
        draws: Of each corruption at each severity.
        rows: The test examples that are corrupted, or held beside other test sets.
        members: Variant to how many of its members are run.
        checkpoints: Compressed variant to the population of dense models, on their way or at the
            end of it, that is as accurate on clean pictures; empty where none were kept.
        paired: Variants whose members derive from the dense ones, one by one.
    """

    config: Robustness
    profile: Profile | None
    kinds: tuple[str, ...]
    severities: tuple[int, ...]
    draws: int
    rows: Codes
    members: dict[str, int]
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    paired: frozenset[str] = frozenset()

    def axis(self, population: str) -> str:
        """The axis of the members of a population, as `numbers.Number` has it."""
        return DENSE if population == "dense" or population in self.paired else COMPRESSED

    @property
    def on_the_way(self) -> dict[str, int]:
        """Populations of checkpoints that are run beside the variants, and their members."""
        chosen = dict.fromkeys(name for name in self.checkpoints.values() if name != "dense")
        return dict.fromkeys(chosen, self.members["dense"])

    @property
    def matched(self) -> list[tuple[str, str]]:
        """Compressed variants, each with a population that is as accurate on clean pictures."""
        return [*self.config.matched.items(), *self.checkpoints.items()]

    def by_population(self, values: NDArray[Scalar]) -> dict[str, NDArray[Scalar]]:
        """Cut the last axis, of all members that were run in their order, into populations."""
        counts = self.members | self.on_the_way
        parts = np.split(values, np.cumsum(list(counts.values()))[:-1], axis=-1)
        return dict(zip(counts, parts, strict=True))

    @property
    def families(self) -> dict[str, list[int]]:
        """Places of all standard corruptions, and of those of each family."""
        found: dict[str, list[int]] = {ALL_KINDS: []}
        for place, kind in enumerate(self.kinds):
            found.setdefault(family_of(kind), []).append(place)
            if kind in STANDARD:
                found[ALL_KINDS].append(place)
        return {name: places for name, places in found.items() if places}

    def draws_of(self, severity: int) -> list[int]:
        """Places of the draws of one severity."""
        first = self.severities.index(severity) * self.draws
        return list(range(first, first + self.draws))

    @property
    def left_out(self) -> dict[str, str]:
        """Corruptions that cannot be made, and why."""
        return {} if self.profile is None else dict(self.profile.left_out)

    @property
    def conditions(self) -> list[CorruptedCondition]:
        """Every corruption at every severity, as often as it is drawn."""
        return [
            CorruptedCondition(kind, severity, draw)
            for kind in self.kinds
            for severity in self.severities
            for draw in range(self.draws)
        ]


def suite_of(config: Robustness, size: int) -> tuple[Profile, tuple[str, ...]]:
    """Choose the corruptions for pictures of a size.

    Args:
        config: What is asked for.
        size: Shorter side of the pictures, pixels.

    Raises:
        ConfigError: The profile is for another size, a corruption is unknown or cannot be made.

    >>> _, kinds = suite_of(Robustness(profile="cifar-c", kinds=["noise", "fog"]), 32)
    >>> kinds
    ('gaussian_noise', 'shot_noise', 'impulse_noise', 'fog')
    """
    assert config.profile is not None
    chosen = profile(config.profile, size, frost=config.frost, jpeg85=config.jpeg85)
    wanted: list[str] = []
    for name in config.kinds or FAMILIES[:-1]:
        if name in FAMILIES:
            own = EXTENDED if name == "extended" else STANDARD
            wanted += [k for k in own if family_of(k) == name and k in chosen.kinds]
        elif name in chosen.kinds or name in chosen.left_out:
            wanted.append(chosen.checked(name))
        else:
            known = [*FAMILIES, *chosen.kinds]
            raise ConfigError(
                f"robustness.kinds must name families or corruptions, got {name!r}"
                f"{nearest(name, known)}; they are {', '.join(known)}"
            )
    if not wanted:
        raise ConfigError(
            f"robustness.kinds leaves no corruption of {size} pixels: "
            f"{'; '.join(f'{k}: {why}' for k, why in chosen.left_out.items())}"
        )
    return chosen, tuple(dict.fromkeys(wanted))


def refuse_impossible(asked: Robustness, members: dict[str, int]) -> None:
    """Refuse comparisons that these variants do not bear.

    Args:
        asked: The section of the configuration.
        members: Variant to how many of its members are run.

    Raises:
        ConfigError: A match or a hard set names no variant, or has too few models.
    """
    _refuse_strange_matches(asked, list(members))
    _refuse_hard_sets_of_few(asked, members)


def _refuse_hard_sets_of_few(asked: Robustness, members: dict[str, int]) -> None:
    """A set that these models chose and were judged on would be hard by chance alone."""
    for name in asked.hard_sets:
        if name not in members or name == "dense":
            known = [one for one in members if one != "dense"]
            raise ConfigError(
                f"robustness.hard_sets must name compressed variants of this audit, got {name!r}"
                f"{nearest(name, known)}; they are {', '.join(known)}"
            )
        for one in ("dense", name):
            if members[one] < HALVED:
                raise ConfigError(
                    f"robustness.hard_sets needs {HALVED} models of {one}, half of which choose "
                    f"and half are judged, got {members[one]}; train more, or leave it out"
                )


def _refuse_strange_matches(asked: Robustness, variants: list[str]) -> None:
    for name, match in asked.matched.items():
        for one in (name, match):
            if one not in variants:
                raise ConfigError(
                    f"robustness.matched names {one!r}, which is no variant of this audit"
                    f"{nearest(one, variants)}; they are {', '.join(variants)}"
                )
        if match == name or name == "dense":
            raise ConfigError(
                f"robustness.matched compares a compressed variant with another one, got {name!r} "
                f"and {match!r}; name early checkpoints of the dense models as a variant"
            )


def checkpoints_file(run: Run) -> Path:
    """Class ids that dense models on their way predict of the clean pictures."""
    return run.path("robustness", "checkpoints.parquet")


def clean_energies_file(run: Run) -> Path:
    """Energies of the clean pictures."""
    return run.path("robustness", "clean.parquet")


def corrupted_file(run: Run, condition: CorruptedCondition) -> Path:
    """What every member says under one condition."""
    return run.path("robustness", f"{condition}.parquet")


def set_file(run: Run, asked: OtherTestSet) -> Path:
    """What every member says of another test set."""
    return run.path("robustness", f"set-{asked.name}.parquet")
