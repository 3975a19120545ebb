"""What the files around the code promise each other."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scotoma import HOMES
from tests import tiers
from tests.conftest import ROOT

LINES = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
PINS = {canonicalize_name(name): pin for name, _, pin in (line.partition("==") for line in LINES)}


def test_the_lock_pins_every_requirement_within_its_range() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    groups = settings["dependency-groups"]
    lists = [settings["project"]["dependencies"], *extras.values(), *groups.values()]
    for requirement in (Requirement(text) for texts in lists for text in texts):
        if requirement.name != "scotoma":
            pin = PINS[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(pin), f"{requirement}, got {pin}"


def test_ruff_before_a_commit_is_the_one_of_the_lock() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = hooks["repos"]
    assert repository["rev"] == f"v{PINS['ruff']}"
    assert {hook["id"] for hook in repository["hooks"]} == {"ruff-check", "ruff-format"}


def test_continuous_integration_is_the_script_of_this_repository() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


# Rooms whose modules answer alike: readers of one kind of file each, the tables of one paper each.
ALIKE = ("scotoma/readers", "scotoma/papers")
NAMED_AFTER_WHAT_THEY_DO = ("scotoma/commands/", "scotoma/steps/", "pipelines/", "components/")


def test_no_public_name_has_two_meanings() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for folder in ("scotoma", "components", "pipelines"):
        for path in (ROOT / folder).rglob("*.py"):
            file = path.relative_to(ROOT).as_posix()
            room = next((room for room in ALIKE if file.startswith(f"{room}/")), file)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name[0] == "_":
                    continue
                if not _is_named_after(file, node.name):
                    homes[node.name].add(room)
    assert {name: rooms for name, rooms in homes.items() if len(rooms) > 1} == {}


def _is_named_after(file: str, name: str) -> bool:
    """Whether a command, a step or a component stands in the file or folder of its name.

    So does what a notebook calls: `scotoma.judge` is the `judge` of where `scotoma` finds it.
    """
    module = file.removesuffix(".py").replace("/", ".")
    return HOMES.get(name) == module or (
        file.startswith(NAMED_AFTER_WHAT_THEY_DO) and name in module.split(".")
    )


@pytest.mark.parametrize("key", [*tiers.HEAVY, *tiers.KEPT])
def test_what_is_heavy_is_a_test_that_is_there(key: str) -> None:
    file, _, name = key.partition("::")
    assert (ROOT / file).exists(), f"mend tests/tiers.py: no {file}"
    if function := name.partition("[")[0]:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", text, re.M), f"mend tests/tiers.py: no {name}"
