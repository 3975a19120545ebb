"""KFP's own description of its API, as what requests and answers are held against."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["Contract"]

DESCRIPTION = Path(__file__).with_name("kfp_api_v2beta1.swagger.json")


class Contract:
    """The server's OpenAPI description (Swagger 2.0), as Kubeflow Pipelines 2.17 publishes it."""

    def __init__(self) -> None:
        description = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
        self.definitions = {
            name: _strict(schema) for name, schema in description.get("definitions", {}).items()
        }
        self.operations = {
            (method.upper(), _pattern(template)): operation
            for template, operations in description["paths"].items()
            for method, operation in operations.items()
        }

    def faults_of_request(
        self, method: str, path: str, query: dict[str, str], body: Any
    ) -> list[str]:
        """What of a request the description does not know or does not allow."""
        operation = self._operation(method, path)
        if operation is None:
            return [f"{method} {path} is not in the description"]
        parameters = {(one["in"], one["name"]): one for one in operation["parameters"]}
        faults = [
            f"{method} {path}: no parameter {name}"
            for name in query
            if ("query", name) not in parameters
        ]
        for (where, name), one in parameters.items():
            if where == "body":
                faults += [
                    f"{method} {path}: {fault}" for fault in self._faults(body, one["schema"])
                ]
            if where == "query" and one.get("required") and name not in query:
                faults.append(f"{method} {path}: {name} is missing")
        return faults

    def faults_of_answer(self, method: str, path: str, status: int, body: Any) -> list[str]:
        """What of an answer the description does not allow."""
        operation = self._operation(method, path)
        if operation is None:
            return []
        answers = operation["responses"]
        schema = answers.get(str(status), answers["default"])["schema"]
        return [f"{method} {path} {status}: {fault}" for fault in self._faults(body, schema)]

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        # `runs/{run_id}:retry` before `runs/{run_id}`: the longest pattern that fits.
        fitting = [
            (len(pattern), operation)
            for (name, pattern), operation in self.operations.items()
            if name == method and re.fullmatch(pattern, path)
        ]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None

    def _faults(self, value: Any, schema: dict[str, Any]) -> list[str]:
        whole = {**_strict(schema), "definitions": self.definitions}
        from jsonschema import Draft4Validator

        validator = Draft4Validator(whole)
        return [f"{error.json_path} {error.message}" for error in validator.iter_errors(value)]


def _pattern(template: str) -> str:
    parts = re.split(r"(\{[^}]+\})", template)
    return "".join("[^/:]+" if part.startswith("{") else re.escape(part) for part in parts)


def _strict(schema: Any) -> Any:
    """A schema that allows no other keys, and whole numbers where int64 is written as text."""
    schema = copy.deepcopy(schema)
    if isinstance(schema, dict):
        if schema.get("format") == "int64" and schema.get("type") == "string":
            schema["type"] = ["string", "integer"]
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        if "$ref" in schema:  # the description has a type beside it, which says nothing
            return {"$ref": schema["$ref"]}
        return {key: _strict(value) for key, value in schema.items()}
    return [_strict(one) for one in schema] if isinstance(schema, list) else schema
