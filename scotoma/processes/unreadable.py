"""One sentence for whatever Polars raises of a file that it cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes.exhausted import exhausted

# A damaged Parquet file may break what its reader takes for granted: that is a panic, and no
# PolarsError.
UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


@contextmanager
def readable(place: str | Path, way_out: str, form: str = " as Parquet") -> Iterator[None]:
    """Read a file in this block.

    Args:
        place: What messages call it.
        way_out: The end of the sentence.
        form: What it should be; empty where it is not known.

    Raises:
        DataError: It cannot be read.
    """
    try:
        yield
    except UNREADABLE as error:
        if exhausted(error):
            raise
        raise DataError(
            f"{printable(str(place))} cannot be read{form} ({reason(error)}); {way_out}"
        ) from error


def reason(error: BaseException) -> str:
    r"""What an error says, as a part of a sentence.

    >>> reason(OSError("no such\nthing")), reason(OSError())
    ('no such', 'OSError')
    """
    text = re.sub(r'^called `Result::unwrap.*?"|\\n.*', "", str(error))  # of a panic, its own words
    lines = text.splitlines() or [type(error).__name__]
    return printable(lines[0])[:200]
