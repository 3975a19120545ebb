"""What the files around the code promise each other."""

from __future__ import annotations

import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
