"""The catalogue of components: what kubeflow/pipelines-components asks of each.

The rules are those of its docs/CONTRIBUTING.md and its schema of metadata.yaml.
"""

from __future__ import annotations

import datetime
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest
import yaml
from kfp import compiler

from scotoma import components

REQUIRED = ("__init__.py", "component.py", "metadata.yaml", "README.md", "OWNERS")
SEMANTIC = r"(==|>=|<=|~=)?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
FIELDS = {"name", "stability", "dependencies", "tags", "lastVerified"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    script = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "catalogue.py"))
    folder = tmp_path_factory.mktemp("catalogue")
    return {path.name: path for path in script["write"](folder)}


@pytest.mark.parametrize("name", components.__all__)
def test_a_component_has_what_the_catalogue_asks_for(name: str, written: dict[str, Path]) -> None:
    own = written[name]
    assert all((own / file).is_file() for file in REQUIRED)
    metadata = yaml.safe_load((own / "metadata.yaml").read_text())
    assert set(metadata) == FIELDS
    assert metadata["name"] == name
    assert metadata["stability"] in ("alpha", "beta", "stable")
    (kubeflow,) = metadata["dependencies"].values()
    assert [one["name"] for one in kubeflow] == ["Pipelines"]
    assert all(re.fullmatch(SEMANTIC, one["version"]) for one in kubeflow)
    assert datetime.datetime.fromisoformat(metadata["lastVerified"]).tzinfo is not None

    page = (own / "README.md").read_text()
    function = getattr(components, name).python_func
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert set(listed) - {"Output"} == set(inspect.signature(function).parameters)
    assert "None" not in page


@pytest.mark.parametrize("name", components.__all__)
def test_a_component_stands_alone_and_its_example_compiles(
    name: str, written: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = written[name]
    assert "scotoma" not in (own / "component.py").read_text().partition("def ")[0].replace(
        '"scotoma', ""
    )
    monkeypatch.syspath_prepend(own.parent)
    example = importlib.import_module(f"{name}.example_pipelines")
    pipeline = getattr(example, f"{name}_example")
    compiler.Compiler().compile(pipeline, str(tmp_path / "pipeline.yaml"))
    compiled = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())
    (image,) = {
        executor["container"]["image"]
        for executor in compiled["deploymentSpec"]["executors"].values()
        if "container" in executor
    }
    assert image == "python:3.11"
    assert name.replace("_", "-") in compiled["root"]["dag"]["tasks"]
