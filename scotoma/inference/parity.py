"""Do two runtimes say the same of one model, and for whom do they not?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.inference.engines import LEVELS, Network, OnnxEngine, providers
from scotoma.inference.population import Images, images_at_once

__all__ = ["GroupParity", "Parity", "Runtime", "runtime_parity"]


@dataclass(frozen=True)
class Runtime:
    """One way of running an ONNX model.

    Attributes:
        optimisation: `none`, `basic`, `extended` or `all`.
        provider: One of `providers()`; the first of them where empty.
        exact: 8-bit products that cannot overflow on processors without VNNI.
    """

    optimisation: str = "all"
    provider: str = ""
    exact: bool = True

    def __str__(self) -> str:
        provider = (self.provider or providers()[0]).removesuffix("ExecutionProvider")
        return f"{provider}, optimised: {self.optimisation}" + ("" if self.exact else ", overflows")


@dataclass(frozen=True)
class GroupParity:
    """How often two runtimes differ on a group's examples.

    Attributes:
        group: Its name.
        n: Its examples.
        differ: Examples that are labelled differently.
        share: differ / n; nan for a group without examples.
        low: Lower end of its 95% interval (Clopper and Pearson, examples as the only chance).
        high: Upper end.
        reason: Why share is nan, or "".
    """

    group: str
    n: int
    differ: int
    share: float
    low: float
    high: float
    reason: str = ""


@dataclass(frozen=True)
class Parity:
    """The labels that each runtime gives each example.

    Attributes:
        runtimes: What ran the model, in words.
        labels: Class ids, shape (N, R).
        largest: Largest difference of a score from that of the first runtime, shape (R,).
    """

    runtimes: tuple[str, ...]
    labels: NDArray[np.unsignedinteger[Any]]
    largest: NDArray[np.float64]

    def by_group(
        self, masks: NDArray[np.bool_], names: Sequence[str], *, a: int = 0, b: int = 1
    ) -> list[GroupParity]:
        """How often two of the runtimes differ, by group.

        Args:
            masks: Membership, shape (G, N).
            names: Of the groups.
            a: Place of one runtime.
            b: Place of the other.

        >>> labels = np.array([[0, 0], [1, 0], [1, 1], [2, 2]], np.uint8)
        >>> found = Parity(("plain", "fused"), labels, np.zeros(2))
        >>> (old,) = found.by_group(np.array([[True, True, False, False]]), ["old"])
        >>> old.differ, old.n, round(old.low, 3), round(old.high, 3)
        (1, 2, 0.013, 0.987)
        """
        apart = self.labels[:, a] != self.labels[:, b]
        return [
            _compared(name, int((apart & mask).sum()), int(mask.sum()))
            for name, mask in zip(names, masks, strict=True)
        ]


def _compared(name: str, differ: int, n: int) -> GroupParity:
    if not n:
        reason = f"undefined (no examples in group {name!r})"
        return GroupParity(name, 0, 0, np.nan, np.nan, np.nan, reason)
    from scipy.stats import binomtest

    interval = binomtest(differ, n).proportion_ci(0.95, method="exact")
    return GroupParity(name, n, differ, differ / n, float(interval.low), float(interval.high))


def runtime_parity(
    path: Path,
    images: Images,
    network: Network,
    runtimes: Sequence[Runtime] = (Runtime("none"), Runtime("all")),
) -> Parity:
    """Run one model on the same images in several ways.

    Args:
        path: An ONNX file.
        images: uint8, shape (N, 3, H, W).
        network: What it is run as.
        runtimes: At least two; the first is the yardstick.

    Returns:
        Labels by example and runtime.

    Raises:
        DataError: A runtime is not there.
    """
    for runtime in runtimes:
        if runtime.provider and runtime.provider not in providers():
            raise DataError(
                f"provider {runtime.provider} is not installed; there are {', '.join(providers())}"
            )
        if runtime.optimisation not in LEVELS:
            raise DataError(
                f"optimisation must be one of {', '.join(LEVELS)}, got {runtime.optimisation!r}"
            )
    found = [_scores(path, images, network, runtime) for runtime in runtimes]
    small = np.uint8 if network.classes <= 2**8 else np.uint16
    return Parity(
        tuple(map(str, runtimes)),
        np.stack([scores.argmax(axis=1).astype(small) for scores in found], axis=1),
        np.array([float(np.abs(scores - found[0]).max(initial=0)) for scores in found]),
    )


def _scores(path: Path, images: Images, network: Network, runtime: Runtime) -> NDArray[np.float32]:
    engine = OnnxEngine(
        path,
        network,
        optimisation=runtime.optimisation,
        provider=runtime.provider,
        exact=runtime.exact,
    )
    batch = images_at_once(images)
    parts = [engine.scores(images[at : at + batch]) for at in range(0, len(images), batch)]
    return np.concatenate(parts)
