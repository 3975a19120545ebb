"""Schema and documentation are what the comments in values.yaml give."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.charts.conftest import CHART, VALUES

Template = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = CHART.parent / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def test_committed_files_are_the_generated_ones(generator: ModuleType) -> None:
    for name, content in generator.generate(CHART).items():
        committed = (CHART / name).read_text(encoding="utf-8")
        assert committed == content, f"{name}: run charts/generate.py"


def test_every_value_is_in_the_documentation_and_in_the_schema(generator: ModuleType) -> None:
    def leaves(values: dict[str, Any], *above: str) -> list[tuple[str, ...]]:
        found = []
        for name, value in values.items():
            deeper = isinstance(value, dict) and value and name != "resources"
            found += leaves(value, *above, name) if deeper else [(*above, name)]
        return found

    text = (CHART / "README.md").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    for path in leaves(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))):
        assert text.count(f"| `{'.'.join(path)}` |") == 1, path
        place = schema
        for name in path:
            place = place["properties"][name]
        assert place["description"], path


def test_the_schema_takes_the_defaults_and_every_file_of_values() -> None:
    from jsonschema import Draft7Validator

    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    for file in (CHART / "values.yaml", *VALUES):
        Draft7Validator(schema).validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_a_value_without_documentation_is_refused(generator: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"^a\.c is not documented; write `# --` above it$"):
        generator.read_values("# -- A.\na:\n  # -- B.\n  b: 1\n  c: 2\n")


def test_documentation_belongs_to_the_value_below_it(generator: ModuleType) -> None:
    text = """\
# A remark.

# -- First,
# and more.
a:
  # -- Second.
  b: x  # @schema pattern:^a
  # -- Third.
  c:  # @schema type:object
    d: 1
# -- Last.
# @schema items:{type:
# @schema integer}; maxItems:3
e: []
"""
    found = {".".join(one.path): (one.text, one.schema) for one in generator.read_values(text)}
    assert found == {
        "a": ("First, and more.", {"type": "object"}),
        "a.b": ("Second.", {"type": "string", "pattern": "^a"}),
        "a.c": ("Third.", {"type": "object"}),
        "e": ("Last.", {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
    }
