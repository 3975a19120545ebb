"""Every rule of compiled pipelines can fail, on damage and on what kfp itself compiles."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from kfp import dsl

from scotoma.components.image import IMAGE
from scotoma.config import default_config
from scotoma.pipelines import build_pipeline
from tests.pipelines.ir import (
    IR,
    RULES,
    cache_keys,
    compiled,
    dangling_inputs,
    dangling_outputs,
    dangling_placeholders,
    loop,
    loop_items_that_fail,
    missing_inputs,
    repeated_artifacts,
    task_of,
    task_outputs_in_loops,
    unknown_parts,
)


@cache
def _audit() -> IR:
    return compiled(build_pipeline(default_config(), shard_count=3))


def audit() -> IR:
    return copy.deepcopy(_audit())


# --- every rule can fail --------------------------------------------------------------------------


def gone_producer(ir: IR) -> str:
    task_of(ir, "report-bias")["inputs"]["artifacts"]["predictions"]["taskOutputArtifact"][
        "producerTask"
    ] = "collect"
    return "comp-exit-handler-1/report-bias: predictions comes from collect, no task here"


def gone_output(ir: IR) -> str:
    ir["components"]["comp-prepare-data"]["outputDefinitions"]["artifacts"] = {}
    return "prepare-data has no output examples"


def undeclared_artifact(ir: IR) -> str:
    del loop(ir)[1]["inputDefinitions"]["artifacts"]
    return "which is no input here"


def undeclared_parameter(ir: IR) -> str:
    del ir["root"]["inputDefinitions"]["parameters"]["run_uri"]
    return "root/record-failure: run_uri comes from run_uri, which is no input here"


def unknown_predecessor(ir: IR) -> str:
    task_of(ir, "write-report")["dependentTasks"].append("verdict")
    return "comp-exit-handler-1/write-report: waits for verdict, no task here"


def forgotten_input(ir: IR) -> str:
    del task_of(ir, "score-divergence")["inputs"]["artifacts"]
    return "comp-exit-handler-1/score-divergence: predictions is not given"


def forgotten_parameter(ir: IR) -> str:
    del loop(ir)[1]["dag"]["tasks"]["train-dense"]["inputs"]["parameters"]["shard"]
    return "train-dense: shard is not given"


def resource_of_no_input(ir: IR) -> str:
    ir["deploymentSpec"]["executors"]["exec-train-dense"]["container"]["resources"] = {
        "resourceCpuLimit": "{{$.inputs.parameters['pipelinechannel--cpu']}}"
    }
    return "train-dense: pipelinechannel--cpu is not given"


def unmade_output(ir: IR) -> str:
    (output,) = loop(ir)[1]["dag"]["outputs"]["artifacts"].values()
    output["artifactSelectors"][0]["producerSubtask"] = "predict"
    return ": no task makes pipelinechannel--predict-batch-predictions"


def no_component(ir: IR) -> str:
    del ir["components"]["comp-log-tracking"]
    return "comp-exit-handler-1/log-tracking: no component"


def no_executor(ir: IR) -> str:
    del ir["deploymentSpec"]["executors"]["exec-log-tracking"]
    return "comp-log-tracking: no executor"


def output_into_loop(ir: IR) -> str:
    loop(ir)[0]["inputs"]["parameters"]["pipelinechannel--classes"] = {
        "taskOutputParameter": {"producerTask": "prepare-data", "outputParameterKey": "classes"}
    }
    loop(ir)[1]["dag"]["tasks"]["train-dense"]["inputs"]["parameters"]["classes"] = {
        "componentInputParameter": "pipelinechannel--classes"
    }
    return ": pipelinechannel--classes enters a loop"


def doubled_output(ir: IR) -> str:
    artifacts = task_of(ir, "decide-verdict")["inputs"]["artifacts"]
    artifacts["slices"] = artifacts["bias"]
    return "/exit-handler-1/decide-verdict: root/exit-handler-1/report-bias.bias is handed 2 times"


def doubled_output_outside_a_loop(ir: IR) -> str:
    """Two inputs of the loop are one artifact, and a task inside takes both."""
    task, body = loop(ir)
    handed = task["inputs"]["artifacts"]
    handed["copy"] = handed["pipelinechannel--prepare-data-examples"]
    inside = body["dag"]["tasks"]["predict-batch"]["inputs"]["artifacts"]
    inside["dense"] = {"componentInputArtifact": "copy"}
    return "predict-batch: root/exit-handler-1/prepare-data.examples is handed 2 times"


def own_cache_key(ir: IR) -> str:
    task_of(ir, "report-bias")["cachingOptions"]["cacheKey"] = "bias"
    return "comp-exit-handler-1/report-bias"


def no_items(ir: IR) -> str:
    loop(ir)[0]["parameterIterator"]["items"]["raw"] = "[]"
    return ": []"


def whole_numbers_as_items(ir: IR) -> str:
    loop(ir)[0]["parameterIterator"]["items"]["raw"] = "[0, 1]"
    return ": [0, 1]"


BREAKS: list[tuple[Callable[[IR], list[str]], Callable[[IR], str]]] = [
    (dangling_inputs, gone_producer),
    (dangling_inputs, gone_output),
    (dangling_inputs, undeclared_artifact),
    (dangling_inputs, undeclared_parameter),
    (dangling_inputs, unknown_predecessor),
    (missing_inputs, forgotten_input),
    (missing_inputs, forgotten_parameter),
    (dangling_placeholders, resource_of_no_input),
    (dangling_outputs, unmade_output),
    (unknown_parts, no_component),
    (unknown_parts, no_executor),
    (task_outputs_in_loops, output_into_loop),
    (repeated_artifacts, doubled_output),
    (repeated_artifacts, doubled_output_outside_a_loop),
    (cache_keys, own_cache_key),
    (loop_items_that_fail, no_items),
    (loop_items_that_fail, whole_numbers_as_items),
]


@pytest.mark.parametrize(("rule", "damage"), BREAKS, ids=lambda function: function.__name__)
def test_a_rule_sees_what_it_is_for(
    rule: Callable[[IR], list[str]], damage: Callable[[IR], str]
) -> None:
    ir = audit()
    fault = damage(ir)
    found = rule(ir)
    assert found
    assert any(fault in sentence for sentence in found), found


def test_every_rule_has_been_seen_to_fail() -> None:
    assert {rule.__name__ for rule, _ in BREAKS} == {rule.__name__ for rule in RULES}


# --- what kfp itself compiles in the traps --------------------------------------------------------


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def make() -> str:
    return "made"


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def make_many() -> list:  # type: ignore[type-arg]  # kfp knows no other
    return ["made"]


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def use(item: str, other: str) -> None:
    pass


@dsl.pipeline
def output_in_loop() -> None:
    made = make()
    with dsl.ParallelFor(items=["a", "b"]) as item:
        use(item=item, other=made.output)


@dsl.pipeline
def output_in_loop_under_condition() -> None:
    made = make()
    with dsl.If(made.output == "made"), dsl.ParallelFor(items=["a", "b"]) as item:
        use(item=item, other=made.output)


@dsl.pipeline
def loop_over_output() -> None:
    with dsl.ParallelFor(items=make_many().output) as item:
        use(item=item, other="x")


@dsl.pipeline
def limit_from_parameter_in_loop(cpu: str) -> None:
    with dsl.ParallelFor(items=["a", "b"]) as item:
        use(item=item, other="x").set_cpu_limit(cpu)


@dsl.pipeline
def limit_from_parameter_in_exit_handler(cpu: str) -> None:
    with dsl.ExitHandler(make()):
        use(item="a", other="x").set_cpu_limit(cpu)


@dsl.pipeline
def limit_from_parameter_at_the_root(cpu: str) -> None:
    use(item="a", other="x").set_cpu_limit(cpu)


@dsl.pipeline
def key_for_the_cache() -> None:
    make().set_caching_options(enable_caching=True, cache_key="made")


@pytest.mark.parametrize(
    ("pipeline", "broken"),
    [
        (output_in_loop, task_outputs_in_loops),
        (output_in_loop_under_condition, task_outputs_in_loops),
        (loop_over_output, None),
        (limit_from_parameter_in_loop, dangling_inputs),
        (limit_from_parameter_in_exit_handler, dangling_inputs),
        (limit_from_parameter_at_the_root, None),
        (key_for_the_cache, cache_keys),
    ],
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", "sound")),
)
def test_the_rules_see_what_kfp_compiles_in_a_trap(
    pipeline: Any, broken: Callable[[IR], list[str]] | None
) -> None:
    ir = compiled(pipeline)
    assert [rule for rule in RULES if rule(ir)] == ([] if broken is None else [broken])
