"""Which of the classes is the favourable outcome?"""

from __future__ import annotations

from collections.abc import Sequence

from scotoma.answers.admission import is_label
from scotoma.answers.pair import Pair
from scotoma.answers.values import tidy
from scotoma.errors import ConfigError
from scotoma.printable import listed, quoted


def with_favourable(pair: Pair, names: Sequence[str]) -> tuple[Pair, str, list[str]]:
    """Make one class of the labels that `--positive` names.

    Returns:
        The pair, the class, and what a reader should know.

    Raises:
        ConfigError: A label that there is not, or no other label is left.

    >>> import polars as pl
    >>> pair = Pair.of(pl.Series("y", ["a", "b", "c"]), {"m": pl.Series(["a", "c", "c"])})
    >>> with_favourable(pair, ["b", "c"])[1:]
    ('b or c', ["'b', 'c' count as one class, 'b or c'"])
    """
    favourable = list(dict.fromkeys(map(tidy, names)))
    classes = [name for name in pair.classes if is_label(name)]
    holder = "predictions" if pair.examples.labels is None else "label"
    for value in favourable:
        if value not in classes:
            raise ConfigError(
                f"--positive must be a value of the {holder}, got {quoted(value)}: choose among "
                f"{listed(classes)}"
            )
    one = " or ".join(favourable)
    if len(favourable) < 2:
        return pair, one, []
    others = [value for value in classes if value not in favourable]
    if not others or one in others:
        raise ConfigError(
            f"--positive must leave another label than {quoted(one)}, got "
            f"{listed(favourable)} of {listed(classes)}: name fewer"
        )
    message = f"{listed(favourable)} count as one class, {quoted(one)}"
    return pair.renamed(dict.fromkeys(favourable, one)), one, [message]
