"""JSON Schemas of the files of people and of audits, made from the models that check them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from scotoma.audit.document import Audit
from scotoma.audit.gate import GateFile
from scotoma.config.gate import GateRules
from scotoma.config.model import Config
from scotoma.errors import ConfigError
from scotoma.printable import ONE_OF_THEM, nearest, quoted

SCHEMAS: dict[str, tuple[type[BaseModel], str]] = {
    "config": (Config, "Scotoma: configuration of an audit"),
    "gate": (GateRules, "Scotoma: rules of a gate"),
    "audit": (Audit, "Scotoma: audit.json"),
    "verdict": (GateFile, "Scotoma: gate.json"),
}


def file_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of one kind of file.

    Args:
        kind: `config`, `gate` (its rules), `audit` or `verdict`.

    Returns:
        A schema of draft 2020-12. It knows keys, types and ranges; what holds between keys is
        checked when the file is read.

    Raises:
        ConfigError: Another kind.

    >>> file_schema("audit")["properties"]["seed"]["description"]
    'Seed of the audit.'
    """
    if kind not in SCHEMAS:
        *known, last = SCHEMAS
        raise ConfigError(
            f"schema must be {', '.join(known)} or {last}, got {quoted(kind)}"
            f"{nearest(kind, SCHEMAS, ONE_OF_THEM)}"
        )
    model, title = SCHEMAS[kind]
    content = model.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | content | {"title": title}
