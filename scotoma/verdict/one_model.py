"""The one-model trap: how often do a few models a side contradict all of them?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.audit.document import FewModelsRow

DRAWS = 1_000  # of models, where not every choice of one is taken
SIZES = (1, 2, 3, 5, 10, 20)  # models a side that are looked at
NO_INTERVAL = (
    "no interval: the same models appear in many draws, and all of them together are taken for "
    "the truth"
)


def one_model_trap(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    *,
    relative: float,
    absolute: float,
    paired: bool = False,
    seed: int = 0,
) -> list[FewModelsRow]:
    """Draw models from both populations, decide by their means alone, and compare with all.

    Whoever has one dense and one compressed model decides so: by whether the rate of a group rose.
    A rise counts where it exceeds both margins.

    Args:
        dense: Rates of the dense members by group, fractions, shape (G, K); nan where undefined.
        compressed: Rates of the compressed members, shape (G, K').
        relative: Margin on compressed / dense - 1, a fraction.
        absolute: Margin on compressed - dense, a fraction.
        paired: Member m of `compressed` derives from member m of `dense`: they are drawn in pairs,
            and K = K'.
        seed: Of the draws; with one model a side every pair is taken instead.

    Returns:
        A row a number of models, up to less than all of them; none where a population is one model.

    >>> rows = one_model_trap([[0.10, 0.10]], [[0.11, 0.15]], relative=0.2, absolute=0.005)
    >>> [(row.members, row.wrong, row.draws) for row in rows]
    [(1, 0.5, 4)]
    """
    d, c = np.asarray(dense, np.float64), np.asarray(compressed, np.float64)
    known = ~(np.isnan(d).any(axis=1) | np.isnan(c).any(axis=1))
    d, c = d[known], c[known]
    if not len(d):
        return []

    def excess(
        before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        return (after - before) - np.maximum(relative * before, absolute)

    whole = excess(d.mean(axis=1), c.mean(axis=1))
    worst = int(whole.argmax())
    # A second word of the key, so that these draws repeat no others of the seed.
    rng = np.random.Generator(np.random.Philox(key=[seed, 1_000_033]))
    rows = []
    for few in (size for size in SIZES if size < min(d.shape[1], c.shape[1])):
        first, second = _choices(d.shape[1], c.shape[1], few, paired=paired, rng=rng)
        harmed = excess(d[:, first].mean(axis=2), c[:, second].mean(axis=2)) > 0
        rows.append(
            FewModelsRow(
                members=few,
                wrong=float((harmed.any(axis=0) != (whole > 0).any()).mean()),
                wrong_worst=float((harmed[worst] != (whole[worst] > 0)).mean()),
                draws=harmed.shape[1],
                reason=NO_INTERVAL,
            )
        )
    return rows


def _choices(
    k: int, other: int, few: int, *, paired: bool, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Members of each comparison, dense and compressed, shape (draws, few) each."""
    if few == 1:
        if paired:
            both = np.arange(k)[:, None]
            return both, both
        first, second = np.meshgrid(np.arange(k), np.arange(other), indexing="ij")
        return first.reshape(-1, 1), second.reshape(-1, 1)
    first = rng.random((DRAWS, k)).argsort(axis=1)[:, :few]
    return first, first if paired else rng.random((DRAWS, other)).argsort(axis=1)[:, :few]
