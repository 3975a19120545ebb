"""JSON files of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scotoma.storage.files import written


def write_json(path: Path, value: Any, *, indent: int | None = 1) -> None:
    """Write JSON with sorted keys, whole or not at all; nan and infinity are refused.

    Args:
        path: The file.
        value: What JSON can hold.
        indent: Spaces a level; None for one line, which takes a tenth of the time.
    """
    text = json.dumps(value, indent=indent, sort_keys=True, allow_nan=False, ensure_ascii=False)
    with written(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_record(path: Path) -> dict[str, Any]:
    """Read an object that says what was finished.

    Returns:
        An empty one where there is none, or none that can be read: what it would name is then not
        known to be finished, and is made again.
    """
    try:
        content = read_json(path)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
