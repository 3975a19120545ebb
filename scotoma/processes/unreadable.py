"""One sentence for whatever Polars raises of a file that it cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable

# A damaged Parquet file may break what its reader takes for granted: that is a panic, and no
# PolarsError.
UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


@contextmanager
def readable(place: str | Path, way_out: str) -> Iterator[None]:
    """Read a Parquet file in this block.

    Args:
        place: What messages call it.
        way_out: The end of the sentence.

    Raises:
        DataError: It cannot be read.
    """
    try:
        yield
    except UNREADABLE as error:
        raise DataError(
            f"{printable(str(place))} cannot be read as Parquet ({reason(error)}); {way_out}"
        ) from error


def reason(error: BaseException) -> str:
    r"""What an error says, as a part of a sentence.

    >>> reason(OSError("no such\nthing")), reason(OSError())
    ('no such', 'OSError')
    """
    text = re.sub(r'^called `Result::unwrap.*?"|\\n.*', "", str(error))  # of a panic, its own words
    lines = text.splitlines() or [type(error).__name__]
    return printable(lines[0])[:200]
