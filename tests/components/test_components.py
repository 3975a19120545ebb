"""Components are thin: open, call once, leave; read from their sources."""

from __future__ import annotations

import ast
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
from scotoma.pipelines.placing import CORE
from scotoma.steps.table import STEPS as TABLE

BESIDE = ("__init__.py", "image.py")
FILES = sorted(
    path for path in Path(components.__file__).parent.glob("*.py") if path.name not in BESIDE
)
AROUND = {  # the steps: they find out where the run is, or have none
    "begin_scheduled": "from scotoma.steps.kubeflow.schedule import begin",
    "paired_verdict": "from scotoma.steps.kubeflow.paired import judge_artifacts",
    "record_failure": "from scotoma.steps.kubeflow.failure import record_failure",
}
STEPS = [file for file in FILES if file.stem not in AROUND]


def function_of(file: Path) -> tuple[ast.Module, ast.FunctionDef]:
    module = ast.parse(file.read_text())
    (function,) = (node for node in module.body if isinstance(node, ast.FunctionDef))
    return module, function


def parameters(function: ast.FunctionDef, kind: str) -> list[str]:
    """Names of the parameters annotated `dsl.Input[...]` or `dsl.Output[...]`."""
    found = []
    for argument in function.args.args:
        assert argument.annotation is not None
        if ast.unparse(argument.annotation).startswith(f"dsl.{kind}["):
            found.append(argument.arg)
    return found


def call_in(function: ast.FunctionDef) -> ast.Call:
    statement = function.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value


def test_components_are_all_exported_and_each_has_its_file() -> None:
    assert len(FILES) >= 10
    assert components.__all__ == [file.stem for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_component_is_called_as_its_file(file: Path) -> None:
    assert function_of(file)[1].name == file.stem
    assert getattr(components, file.stem).name == file.stem.replace("_", "-")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_component_imports_nothing_but_kfp_before_it_runs(file: Path) -> None:
    module, function = function_of(file)
    imports = [ast.unparse(node) for node in module.body if node is not function]
    image = "CORE_IMAGE" if file.stem.replace("_", "-") in CORE else "IMAGE"
    assert imports == ["from kfp import dsl", f"from scotoma.components.image import {image}"]
    assert f"base_image={image}," in ast.unparse(function)


@pytest.mark.parametrize("file", STEPS, ids=lambda file: file.stem)
def test_the_body_of_a_component_is_one_import_and_one_call(file: Path) -> None:
    _, function = function_of(file)
    docstring, statement, _ = function.body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    assert ast.unparse(statement) == "from scotoma.steps.runner import execute"
    assert ast.unparse(call_in(function).func) == "execute"


@pytest.mark.parametrize(("name", "imported"), AROUND.items())
def test_the_body_of_those_around_the_steps_too(name: str, imported: str) -> None:
    file = next(file for file in FILES if file.stem == name)
    _, statement, call = function_of(file)[1].body
    assert ast.unparse(statement) == imported
    called = f"{imported.rpartition(' ')[2]}("
    assert ast.unparse(call).removeprefix("return ").startswith(called)


@pytest.mark.parametrize("file", STEPS, ids=lambda file: file.stem)
def test_a_component_hands_over_every_artifact_that_it_was_given(file: Path) -> None:
    _, function = function_of(file)
    call = call_in(function)
    step, run_uri, pointer = (ast.unparse(argument) for argument in call.args)
    row = TABLE[ast.literal_eval(step)]
    assert row.component == file.stem
    assert run_uri == "run_uri"
    leaves, *shown = parameters(function, "Output")
    assert (leaves, pointer) == (row.leaves, f"{row.leaves}.path")
    words = {str(word.arg): ast.unparse(word.value) for word in call.keywords}
    assert all(f"{name}." in words["shown"] + words.get("metrics", "") for name in shown)
    assert parameters(function, "Input") == list(row.reads)
    for name in parameters(function, "Input"):
        assert re.search(rf"\b{name}(\.path\b|\]|[,)])", words["after"])
    assert ("shard" in words) == row.sharded


def test_every_stage_belongs_to_one_component() -> None:
    steps = [ast.literal_eval(call_in(function_of(file)[1]).args[0]) for file in STEPS]
    assert sorted(steps) == sorted(TABLE)


# --- the catalogue of components: what kubeflow/pipelines-components asks of each -----------------

# The rules are those of its docs/CONTRIBUTING.md and its schema of metadata.yaml.

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
