"""What is a floor, what are events, and how many are too few? Decided once, for every number.

Floor of a variance. A change is carried by the examples that flip, and one that nothing carried
here is not known exactly: four flips are added to what was seen (`flip_floor`), as large as the
flips seen are on average. Where none is seen, `DOUBTED` ones are assumed that flip in every model;
fewer with every flip that is seen, and none from `ENOUGH_CHANGED`. The floor is added once, to the
variance of a change; a single rate or mean has none. Where no example speaks for or against a
number, its bounds are those of the rule of three instead (`none_seen`).

Noise floor. Something else: how often two dense models disagree (`divergence.floor`).

Events. Kish's effective number of examples that carry a number, over all models (`n_effective`): an
example that every model gets wrong counts once. A change has those of the side that has fewer.
Harm is shown by what became wrong, so that a gate asks for events after compression; a PASS needs
none, for the floor widens what nothing carries.

Too few. Below `FEWEST` events a ratio has no interval, for its t interval no longer holds its
level; below `FEW` it has, with the words `FEW_EVENTS`. `FEW` are what a gate asks for before
it shows harm (`min.effective_events`) and what the most affected group needs; where fewer errors
are expected, a margin of two standard errors is none (`sampling_margin`). Below `FEWEST_RUNS`
models the spread of training runs is a guess and is left out: the interval then speaks of these
very models. For a mean score and on corrupted pictures a group needs so many examples besides.
"""

from __future__ import annotations

import math

FEWEST = 5  # effective events below which the t interval of a ratio holds its level no more
FEW = 10  # effective events below which it is shown with a warning, and no harm
FEW_EVENTS = "few events"
FEWEST_RUNS = 5  # training runs below which their spread is a guess, and is left out
FEWEST_SCORES = 30  # examples, or clusters, of a group that a PASS on its mean may rest on
FEWEST_PICTURES = 50  # corrupted examples of a group that is compared or judged
DOUBTED = 2.0  # changed examples assumed to flip in every member, where none is seen to change
ENOUGH_CHANGED = 10.0  # effective changed examples from which none is assumed


def sampling_margin(rate: float, n: int) -> float:
    """Compute two standard errors of a dense rate: what another test set moves it by anyway.

    A rise of this size is within what two test sets of this size differ by, so that nobody could
    tell it from luck; a finer margin would never be cleared.

    Args:
        rate: Rate of the dense models, a fraction; taken for at least 1/(n + 2), at most the rest.
        n: Examples at risk (or clusters), at least 1.

    Returns:
        A fraction.

    >>> round(sampling_margin(0.10, 900), 3), round(sampling_margin(0.0, 98), 3)
    (0.02, 0.02)
    """
    least = 1 / (n + 2)
    p = min(max(rate, least), 1 - least)
    return 2 * math.sqrt(p * (1 - p) / n)
