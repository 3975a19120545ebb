"""JSON Schemas of the files that an audit writes, made from the types that write them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from scotoma.audit.document import Audit
from scotoma.audit.gate import GateFile

RESULTS: dict[str, tuple[type[BaseModel], str]] = {
    "audit": (Audit, "Scotoma: audit.json"),
    "verdict": (GateFile, "Scotoma: gate.json"),
}


def result_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of one kind of file.

    Args:
        kind: `audit` or `verdict`.

    Returns:
        A schema of draft 2020-12, whose descriptions say what each key holds.

    Raises:
        KeyError: Another kind.

    >>> result_schema("audit")["properties"]["seed"]["description"]
    'Seed of the audit.'
    """
    model, title = RESULTS[kind]
    schema = model.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": title}
