"""Write README.md and values.schema.json of a chart from the comments in its values.yaml.

    python charts/generate.py charts/scotoma

Above a value, `# --` and the comment lines below it are its documentation. `# @schema KEY:VALUE;
KEY:VALUE`, behind the value or above it, adds to its JSON Schema; VALUE is YAML, but for `pattern`.
The type is that of the value. A mapping over several lines is a section, unless it has a type.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

KEY = re.compile(r"^(?P<indent> *)(?P<name>[A-Za-z]\w*):(?P<rest>.*)$")
TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}

HEAD = """\
# The chart of Scotoma

{description}.
[docs/operating.md](../../docs/operating.md) installs, upgrades, backs up and removes it.

```text
helm install scotoma charts/scotoma --namespace mlops --create-namespace --values mine.yaml
```

Below is every value that `mine.yaml` may have. Settings that contradict each other are refused with
a sentence; [ci/](ci) has files that work. This page is written by `python charts/generate.py
charts/scotoma` from the comments in [values.yaml](values.yaml).
"""


@dataclass(frozen=True)
class Value:
    """One key of values.yaml.

    Attributes:
        path: Its name after those of the sections around it.
        text: Its documentation, one line.
        schema: What it may be.
        default: What it is.
        section: Whether other values stand below it.
    """

    path: tuple[str, ...]
    text: str
    schema: dict[str, Any]
    default: Any
    section: bool


def read_values(text: str) -> list[Value]:
    """The documented values of a values.yaml, in its order.

    Raises:
        ValueError: A value is not documented.
    """
    return list(_values(text.splitlines(), yaml.safe_load(text)))


def _values(lines: list[str], defaults: dict[str, Any]) -> Iterator[Value]:
    comments: list[str] = []
    open_sections: list[tuple[int, str]] = []
    leaf: int | None = None  # indent of a value that goes on over the next lines
    for line in lines:
        if not line.strip():
            comments = []
            continue
        indent = len(line) - len(line.lstrip())
        if leaf is not None and indent > leaf:
            continue
        leaf = None
        if line.lstrip().startswith("#"):
            comments.append(line.strip().lstrip("#").strip())
            continue
        found = KEY.match(line)
        if found is None:
            raise ValueError(f"values.yaml must have `key: value` lines, got {line!r}")
        open_sections = [(at, name) for at, name in open_sections if at < indent]
        path = (*(name for _, name in open_sections), found["name"])
        value, _, behind = found["rest"].partition("# @schema ")
        words, rules = _read_comments([*comments, *(["@schema " + behind] if behind else [])])
        if not words:
            raise ValueError(f"{'.'.join(path)} is not documented; write `# --` above it")
        default: Any = defaults
        for name in path:
            default = default[name]
        section = not value.strip() and "type" not in rules
        if section:
            open_sections.append((indent, found["name"]))
        else:
            leaf = indent
        yield Value(path, words, {"type": TYPES[type(default)], **rules}, default, section)
        comments = []


def _read_comments(comments: list[str]) -> tuple[str, dict[str, Any]]:
    """Documentation and schema of a comment block."""
    start = next((k for k, line in enumerate(comments) if line.startswith("-- ")), len(comments))
    block = comments[start:]
    words = [line for line in block if not line.startswith("@schema ")]
    rules = " ".join(line.removeprefix("@schema ") for line in block if line not in words)
    schema: dict[str, Any] = {}
    for rule in filter(None, rules.split("; ")):
        key, _, value = rule.strip().rstrip(";").partition(":")
        schema[key] = value if key == "pattern" else yaml.safe_load(value)
    return " ".join(words).removeprefix("-- "), schema


def schema_of(values: list[Value]) -> str:
    """The JSON Schema: no value but these."""
    root: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        # Helm hands it to every chart.
        "properties": {"global": {"type": "object"}},
    }
    for value in values:
        around = root
        for name in value.path[:-1]:
            around = around["properties"][name]
        closed = {"additionalProperties": False, "properties": {}} if value.section else {}
        around["properties"][value.path[-1]] = {
            "description": value.text, **value.schema, **closed
        }  # fmt: skip
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def readme_of(values: list[Value], description: str) -> str:
    """The documentation: a table a section."""
    lines = [HEAD.format(description=description).rstrip()]
    table = "| value | what it is | default |\n|---|---|---|"
    for value in values:
        name = ".".join(value.path)
        if value.section:
            lines += [f"\n## {name}\n", f"{value.text}\n", table]
            continue
        if len(value.path) == 1:
            lines += [f"\n## {name}\n", table]
        allowed = ", ".join(f"`{one}`" for one in value.schema.get("enum", []))
        words = f"{value.text} One of {allowed}." if allowed else value.text
        lines.append(f"| `{name}` | {words} | `{json.dumps(value.default)}` |")
    return "\n".join(lines) + "\n"


def generate(chart: Path) -> dict[str, str]:
    """Content of each generated file of a chart, by its name."""
    values = read_values((chart / "values.yaml").read_text(encoding="utf-8"))
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    return {
        "README.md": readme_of(values, about["description"]),
        "values.schema.json": schema_of(values),
    }


if __name__ == "__main__":
    for file, content in generate(Path(sys.argv[1])).items():
        Path(sys.argv[1], file).write_text(content, encoding="utf-8")
