"""JSON Schemas of the files that people write, made from the models that check them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from scotoma.config.gate import GateRules
from scotoma.config.model import Config

SCHEMAS: dict[str, tuple[type[BaseModel], str]] = {
    "config": (Config, "Scotoma: configuration of an audit"),
    "gate": (GateRules, "Scotoma: rules of a gate"),
}


def file_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of one kind of file.

    Args:
        kind: `config` or `gate`.

    Returns:
        A schema of draft 2020-12. It knows keys, types and ranges; what holds between keys is
        checked when the file is read.

    Raises:
        KeyError: Another kind.

    >>> file_schema("gate")["required"]
    ['rules']
    """
    model, title = SCHEMAS[kind]
    content = model.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | content | {"title": title}
