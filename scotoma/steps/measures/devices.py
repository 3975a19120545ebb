"""Does a trained member say the same on the GPU and on the processor?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.inference import MemberAnswers, Network, predict_members

EXAMPLES = 2048  # spread over the test images: a processor takes seconds for them


@dataclass(frozen=True)
class Differences:
    """How many images a member answers differently on the two devices.

    Attributes:
        name: Its variant.
        examples: Images that both were shown.
        differ: Those of them with another answer.
        runtimes: What ran it, on the GPU and on the processor.
    """

    name: str
    examples: int
    differ: int
    runtimes: tuple[str, str]

    def record(self) -> dict[str, Any]:
        """What measurements.json has of it."""
        return {
            "examples": self.examples,
            "differ": self.differ,
            "gpu": self.runtimes[0],
            "processor": self.runtimes[1],
        }

    def __str__(self) -> str:
        """Say it in a step's log."""
        return (
            f"the first {self.name} member answers {self.differ} of {self.examples} images "
            "differently on the GPU and on the processor"
        )


@dataclass
class BothDevices:
    """Answers on a GPU of the first member of each variant, to be compared.

    Attributes:
        members: Place among all members, to variant and file.
        said: Their answers, by place.
        runtimes: What ran them.
    """

    members: Mapping[int, tuple[str, Path]]
    said: dict[int, NDArray[Any]] = field(default_factory=dict)
    runtimes: dict[int, str] = field(default_factory=dict)

    def take(self, answers: MemberAnswers, count: int) -> None:
        """Keep answers if they are of a member that is compared.

        Args:
            answers: Of any member.
            count: Number of all images.
        """
        if answers.member not in self.members:
            return
        whole = self.said.setdefault(
            answers.member, np.zeros((count, answers.best.shape[1]), answers.best.dtype)
        )
        whole[answers.rows] = answers.best
        self.runtimes[answers.member] = answers.runtime

    def compare(self, images: Path, network: Network) -> Iterator[Differences]:
        """Run the members on the processor too, and count other answers.

        Args:
            images: A .npy file of all images, uint8, shape (N, 3, H, W).
            network: What the members have in common.
        """
        if not self.members:
            return
        pixels = np.load(images, mmap_mode="r")
        rows = np.unique(np.linspace(0, len(pixels) - 1, min(len(pixels), EXAMPLES)).astype(int))
        places = list(self.members)
        found: dict[int, NDArray[Any]] = {}
        runtimes: dict[int, str] = {}
        for answers in predict_members(
            [self.members[place][1] for place in places],
            np.ascontiguousarray(pixels[rows]),
            replace(network, processor=True),
        ):
            place = places[answers.member]
            whole = found.setdefault(
                place, np.zeros((len(rows), answers.best.shape[1]), answers.best.dtype)
            )
            whole[answers.rows] = answers.best
            runtimes[place] = answers.runtime
        several = bool(network.thresholds)
        for place, (name, _) in self.members.items():
            here, there = self.said[place][rows], found[place]
            other = (here != there).any(axis=1) if several else here[:, 0] != there[:, 0]
            yield Differences(
                name, len(rows), int(other.sum()), (self.runtimes[place], runtimes[place])
            )
