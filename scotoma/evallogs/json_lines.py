"""Which JSON objects does a file hold, one a line or whole?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.evallogs.record import parsed
from scotoma.printable import printable
from scotoma.storage.regular import open_regular

__all__ = ["json_file", "json_lines"]


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read one object a line; empty lines are passed over.

    Raises:
        DataError: A line holds no JSON object; the message has its number.
    """
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            if line.isspace():
                continue
            value = parsed(line, path.name, f"line {number:,}")
            if not isinstance(value, dict):
                raise DataError(
                    f"{printable(path.name)} must hold one JSON object a line, and line "
                    f"{number:,} is a {type(value).__name__}; write the log again"
                )
            yield value


def json_file(path: Path) -> Any:
    """Read a file that is one JSON value.

    Raises:
        DataError: It is not.
    """
    with open_regular(path) as file:
        return parsed(file.read(), path.name, "it")
