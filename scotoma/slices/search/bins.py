"""Where a number's bins are cut, and how a bin is written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def cut_points(values: npt.NDArray[np.generic], bins: int) -> npt.NDArray[np.generic]:
    """Lower ends of the bins but the first: about equally many values in each.

    A value that fills a bin's share alone gets a bin of its own, so that the 91% of zeros of a
    capital gain do not swallow the rest. No more distinct values than bins: a bin for each.

    Args:
        values: Numbers without nan, any numeric dtype, at least one.
        bins: Bins wanted, at least 2.

    Returns:
        Ascending values of the same dtype; bin b holds cut[b-1] <= value < cut[b].

    >>> cut_points(np.arange(20), 4)
    array([ 5, 10, 15])
    >>> cut_points(np.array([0] * 17 + [3, 5, 6, 7, 9]), 4)
    array([3])
    """
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if starts.size <= bins:
        return np.asarray(ordered[starts[1:]])
    counts = np.diff(np.append(starts, ordered.size))
    heavy = np.flatnonzero(counts * bins >= ordered.size)
    after = starts[np.minimum(heavy + 1, starts.size - 1)]
    quantiles = -(-np.arange(1, bins) * ordered.size // bins)
    cuts = np.unique(ordered[np.concatenate([quantiles, starts[heavy], after])])
    return np.asarray(cuts[1:] if cuts[0] == ordered[0] else cuts)


def round_cuts(
    values: npt.NDArray[np.float64], cuts: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Cuts in as few digits as part the same values the same way.

    Args:
        values: The numbers that are cut, without nan.
        cuts: From `cut_points`.

    >>> round_cuts(np.array([0.1234, 0.31415, 0.7777]), np.array([0.31415]))
    array([0.3])
    """
    ordered = np.unique(values)
    below = ordered[np.searchsorted(ordered, cuts) - 1]
    return np.array([_shortest(float(a), float(b)) for a, b in zip(below, cuts, strict=True)])


def bin_texts(name: str, values: list[tuple[str, str]], cuts: list[str]) -> list[str]:
    """How people write the bins: `age < 22`, `age in [37, 41)`, `hours = 40`, `age >= 58`.

    Args:
        name: The feature.
        values: Smallest and largest value in each bin, as text.
        cuts: Lower ends of the bins but the first, as text.

    >>> bin_texts("age", [("17", "21"), ("22", "30"), ("40", "40"), ("41", "90")],
    ...           ["22", "40", "41"])
    ['age < 22', 'age in [22, 40)', 'age = 40', 'age >= 41']
    """
    ends = ["", *cuts, ""]
    return [
        _bin_text(name, low, high, ends[b], ends[b + 1]) for b, (low, high) in enumerate(values)
    ]


def _bin_text(name: str, low: str, high: str, start: str, stop: str) -> str:
    if low == high:
        return f"{name} = {low}"
    if not start:
        return f"{name} < {stop}" if stop else f"{name} in [{low}, {high}]"
    return f"{name} in [{start}, {stop})" if stop else f"{name} >= {start}"


def _shortest(below: float, cut: float) -> float:
    """The number of fewest digits in (below, cut], the nearest to `cut` among those."""
    if not np.isfinite([below, cut]).all():
        return cut
    for digits in range(1, 17):
        rounded = float(f"{cut:.{digits - 1}e}")
        if rounded > cut and cut != 0:
            unit = 10.0 ** (np.floor(np.log10(abs(cut))) - digits + 1)
            rounded = float(f"{rounded - unit:.{digits}g}")
        if below < rounded <= cut:
            return rounded
    return cut


def number_text(value: float | int) -> str:
    """A number as short as it can be written without loss.

    >>> number_text(37.0), number_text(0.25), number_text(1e-05)
    ('37', '0.25', '1e-05')
    """
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value)).removesuffix(".0")
