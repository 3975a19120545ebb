"""`scotoma schema`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from scotoma.errors import ConfigError
from scotoma.printable import ONE_OF_THEM, nearest

__all__ = ["schema"]


def schema(
    kind: Annotated[
        str, typer.Argument(help="config, gate (its rules), audit (audit.json) or verdict.")
    ],
) -> None:
    """Print the JSON Schema of a configuration, a gate file, audit.json or gate.json (verdict)."""
    from scotoma.audit.schemas import RESULTS, result_schema
    from scotoma.config.schemas import SCHEMAS, file_schema

    known = [*SCHEMAS, *RESULTS]
    if kind not in known:
        raise ConfigError(
            f"schema must be {', '.join(known[:-1])} or {known[-1]}, got {kind!r}"
            f"{nearest(kind, known, ONE_OF_THEM)}"
        )
    content = file_schema(kind) if kind in SCHEMAS else result_schema(kind)
    sys.stdout.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
