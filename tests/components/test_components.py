"""Components are thin: open, call once, leave; read from their sources."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
