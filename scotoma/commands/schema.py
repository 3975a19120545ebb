"""The schema command: what an editor completes a configuration or a gate file from."""

from __future__ import annotations

import json
import sys

from scotoma.config.schemas import SCHEMAS, schema
from scotoma.errors import ConfigError
from scotoma.printable import nearest

__all__ = ["run_schema"]


def run_schema(kind: str) -> None:
    """Print the JSON Schema of one kind of file.

    Args:
        kind: `config` or `gate`.

    Raises:
        ConfigError: Another kind.
    """
    if kind not in SCHEMAS:
        raise ConfigError(
            f"schema must be {' or '.join(SCHEMAS)}, got {kind!r}{nearest(kind, SCHEMAS)}"
        )
    sys.stdout.write(json.dumps(schema(kind), indent=1, ensure_ascii=False) + "\n")
