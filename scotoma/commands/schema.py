"""The schema command: what an editor completes a file from, and a program checks a result by."""

from __future__ import annotations

import json
import sys

from scotoma.audit.schemas import RESULTS, result_schema
from scotoma.config.schemas import SCHEMAS, schema
from scotoma.errors import ConfigError
from scotoma.printable import nearest

__all__ = ["run_schema"]


def run_schema(kind: str) -> None:
    """Print the JSON Schema of one kind of file.

    Args:
        kind: `config`, `gate` (its rules), `audit` (audit.json) or `verdict` (gate.json).

    Raises:
        ConfigError: Another kind.
    """
    known = [*SCHEMAS, *RESULTS]
    if kind not in known:
        raise ConfigError(
            f"schema must be {', '.join(known[:-1])} or {known[-1]}, got {kind!r}"
            f"{nearest(kind, known)}"
        )
    content = schema(kind) if kind in SCHEMAS else result_schema(kind)
    sys.stdout.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
