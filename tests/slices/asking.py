"""`scotoma slices` in this process, the settings of its search in a file of their own."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import yaml

from scotoma.slices.settings import SearchFile
from tests.helpers import commands

__all__ = ["measured", "scotoma", "with_settings"]

OWN = {"metric", "paired"}  # options of the command


def with_settings(*arguments: str | Path | int, folder: Path | None = None) -> list[str]:
    """Arguments in which `--max-cross 2` and its like are `--settings FILE`, a file of them."""
    keys = SearchFile.model_fields.keys() - OWN
    rest, settings, words = [], {}, iter(map(str, arguments))
    for word in words:
        key = word.removeprefix("--").replace("-", "_")
        if word.startswith("--") and key in keys:
            value = yaml.safe_load(next(words))
            settings[key] = str(value).split() if key == "beam_options" else value
        else:
            rest.append(word)
    if not settings:
        return rest
    path = Path(folder or tempfile.mkdtemp(), "settings.yaml")
    path.write_text(yaml.safe_dump(settings))
    return [*rest, "--settings", str(path)]


def scotoma(*arguments: str | Path | int) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; the folder of the settings is left out of messages."""
    code, out, err = commands.scotoma(*with_settings(*arguments))
    return code, out, re.sub(r"\S+/settings\.yaml", "settings.yaml", err)


def measured(*arguments: str | Path | int) -> dict[str, Any]:
    """What the command prints with --json."""
    code, out, err = scotoma(*arguments, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found
