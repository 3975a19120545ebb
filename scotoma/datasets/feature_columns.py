"""Which columns of a source are features beside the attributes, and what do they hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from scotoma.answers.values import as_numbers
from scotoma.datasets.image_statistics import STATISTICS
from scotoma.datasets.text_columns import checked_text
from scotoma.errors import DataError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.config.model import Config

__all__ = ["feature_columns", "features_of_source"]

CODE = r"^[+-]?0\d"


def feature_columns(config: Config) -> dict[str, str]:
    """Name the columns that are features beside the attributes, and the key that asks for each.

    >>> from scotoma.config import default_config
    >>> feature_columns(default_config())
    {}
    """
    own = {*config.groups.attributes, "class"}
    if not config.source.has_answers:  # which has no images to measure
        own |= STATISTICS.keys()
    columns = {name: "slices.features" for name in config.slices.features if name not in own}
    return columns | dict.fromkeys(config.clarify.features, "clarify.features")


def features_of_source(source: pl.DataFrame, config: Config, origin: str) -> list[pl.Expr]:
    """Read the columns that are features: numbers as float64, all others and codes as text."""
    features = []
    for name, key in feature_columns(config).items():
        text = checked_text(source, name, key, origin, config.limits.missing).values
        number = as_numbers(text)
        if name in config.clarify.features:
            _refuse_no_numbers(source.with_columns(number.alias(name)), source, name, origin)
        # A column of numbers is one in CSV as in Parquet; codes such as 02139 stay text.
        wholly = number.null_count() == text.null_count() and not text.str.contains(CODE).any()
        wholly &= name not in config.slices.categorical
        value = number if name in config.clarify.features or wholly else text
        features.append(pl.lit(value).alias(name))
    return features


def _refuse_no_numbers(numbers: pl.DataFrame, source: pl.DataFrame, name: str, origin: str) -> None:
    """Refuse a column that holds something else than a finite number for a test example."""
    good = numbers[name].is_finite().fill_null(value=False)
    if not (bad := source.filter(~good & (source["split"] == "test"))).height:
        return
    raise DataError(
        printable(
            f"clarify.features column {name!r} of {origin} must hold a finite number for every "
            f"test example, got {bad[name][0]!r} in the row of {bad['example_id'][0]!r}; correct "
            "it, or name another column"
        )
    )
