"""A lint over the compiled pipeline: what kfp compiles without a word and runs wrongly."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from kfp import compiler, dsl

from scotoma import components
from scotoma.components.image import IMAGE
from scotoma.config import default_config
from scotoma.pipelines import build_pipeline, compile_pipeline
from scotoma.stages.shards import Shard

IR = dict[str, Any]
PLACEHOLDER = re.compile(r"\{\{\$\.inputs\.(parameters|artifacts)\['([^']+)'\]")


def compiled(pipeline: Any) -> IR:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(pipeline, str(path))
        ir: IR = next(yaml.safe_load_all(path.read_text()))
    return ir


@cache
def _audit(shard_count: int) -> IR:
    return compiled(build_pipeline(default_config(), shard_count=shard_count))


def audit(shard_count: int = 3) -> IR:
    return copy.deepcopy(_audit(shard_count))


# --- the rules, each a function from the compiled pipeline to its faults --------------------------


def dags(ir: IR) -> Iterator[tuple[str, IR]]:
    """Every component that has tasks inside, the root first."""
    yield "root", ir["root"]
    yield from ((name, spec) for name, spec in ir["components"].items() if "dag" in spec)


def tasks(ir: IR) -> Iterator[tuple[str, IR, IR]]:
    """Every task: where it stands, the component it stands in, and itself."""
    for name, spec in dags(ir):
        for task_name, task in spec["dag"]["tasks"].items():
            yield f"{name}/{task_name}", spec, task


def component_of(ir: IR, task: IR) -> IR:
    found: IR = ir["components"].get(task["componentRef"]["name"], {})
    return found


def declared(spec: IR, side: str, kind: str) -> set[str]:
    """Names of the inputs or outputs that a component declares."""
    return set(spec.get(f"{side}Definitions", {}).get(kind, {}))


def dangling_inputs(ir: IR) -> list[str]:
    """Inputs of tasks that come from a task or from an input that is not there."""
    faults = []
    for where, spec, task in tasks(ir):
        beside = spec["dag"]["tasks"]
        for kind, one in (("parameters", "Parameter"), ("artifacts", "Artifact")):
            for name, given in task.get("inputs", {}).get(kind, {}).items():
                outer = given.get(f"componentInput{one}")
                if outer is not None and outer not in declared(spec, "input", kind):
                    faults.append(f"{where}: {name} comes from {outer}, which is no input here")
                if output := given.get(f"taskOutput{one}"):
                    producer, key = output["producerTask"], output[f"output{one}Key"]
                    if producer not in beside:
                        faults.append(f"{where}: {name} comes from {producer}, no task here")
                    elif key not in declared(component_of(ir, beside[producer]), "output", kind):
                        faults.append(f"{where}: {producer} has no output {key}")
        faults += [
            f"{where}: waits for {name}, no task here"
            for name in task.get("dependentTasks", [])
            if name not in beside
        ]
    return faults


def missing_inputs(ir: IR) -> list[str]:
    """Inputs that a component needs and its task does not give."""
    faults = []
    for where, _, task in tasks(ir):
        spec = component_of(ir, task)
        item = task.get("parameterIterator", {}).get("itemInput")
        for kind in ("parameters", "artifacts"):
            given = set(task.get("inputs", {}).get(kind, {})) | {item}
            for name, definition in spec.get("inputDefinitions", {}).get(kind, {}).items():
                if name not in given and not definition.get("isOptional"):
                    faults.append(f"{where}: {name} is not given")
    return faults


def dangling_placeholders(ir: IR) -> list[str]:
    """Placeholders, as resource setters leave them, that name an input their task does not have."""
    faults = []
    for where, _, task in tasks(ir):
        executor = ir["deploymentSpec"]["executors"].get(
            component_of(ir, task).get("executorLabel")
        )
        text = json.dumps([task.get("inputs"), executor])
        faults += [
            f"{where}: {name} is not given"
            for kind, name in PLACEHOLDER.findall(text)
            if name not in task.get("inputs", {}).get(kind, {})
        ]
    return faults


def dangling_outputs(ir: IR) -> list[str]:
    """Outputs of a component with tasks inside that no task in it makes."""
    faults = []
    for where, spec in dags(ir):
        for name, output in spec["dag"].get("outputs", {}).get("artifacts", {}).items():
            for selector in output["artifactSelectors"]:
                task = spec["dag"]["tasks"].get(selector["producerSubtask"])
                made = (
                    set()
                    if task is None
                    else declared(component_of(ir, task), "output", "artifacts")
                )
                if selector["outputArtifactKey"] not in made:
                    faults.append(f"{where}: no task makes {name}")
    return faults


def unknown_parts(ir: IR) -> list[str]:
    """Tasks without a component, and components without something that runs."""
    faults = [
        f"{where}: no component" for where, _, task in tasks(ir) if not component_of(ir, task)
    ]
    executors = ir["deploymentSpec"]["executors"]
    return faults + [
        f"{name}: no executor"
        for name, spec in ir["components"].items()
        if "dag" not in spec and spec.get("executorLabel") not in executors
    ]


def task_outputs_in_loops(ir: IR) -> list[str]:
    """Parameters that a task puts out and a loop's body takes in: kfp's local mode replaces them,
    silently, by the loop's item. Followed through conditions and nested pipelines."""
    faults = []

    def visit(where: str, spec: IR, from_tasks: set[str]) -> None:
        for name, task in spec["dag"]["tasks"].items():
            carried = {
                key
                for key, given in task.get("inputs", {}).get("parameters", {}).items()
                if "taskOutputParameter" in given
                or given.get("componentInputParameter") in from_tasks
            }
            here = f"{where}/{name}"
            if loop := task.get("parameterIterator") or task.get("artifactIterator"):
                items = loop["items"].get("inputParameter")
                faults.extend(f"{here}: {key} enters a loop" for key in sorted(carried - {items}))
            body = component_of(ir, task)
            if "dag" in body:
                visit(here, body, carried)

    visit("root", ir["root"], set())
    return faults


def cache_keys(ir: IR) -> list[str]:
    """Tasks cached by a key of ours: such a cache ignores their arguments."""
    return [where for where, _, task in tasks(ir) if task.get("cachingOptions", {}).get("cacheKey")]


def foreign_images(ir: IR) -> list[str]:
    """Executors that run in another image than the package's."""
    return [
        f"{name}: {executor['container']['image']}"
        for name, executor in ir["deploymentSpec"]["executors"].items()
        if executor["container"]["image"] != IMAGE
    ]


def loop_items_that_fail(ir: IR) -> list[str]:
    """Loops over nothing, which fail where outputs are collected, and over other items than words:
    whole numbers come back as fractions."""
    faults = []
    for where, _, task in tasks(ir):
        if "raw" in (items := task.get("parameterIterator", {}).get("items", {})):
            values = json.loads(items["raw"])
            if not values or not all(isinstance(value, str) for value in values):
                faults.append(f"{where}: {items['raw']}")
    return faults


RULES = [
    dangling_inputs,
    missing_inputs,
    dangling_placeholders,
    dangling_outputs,
    unknown_parts,
    task_outputs_in_loops,
    cache_keys,
    foreign_images,
    loop_items_that_fail,
]


# --- every rule can fail --------------------------------------------------------------------------


def root_task(ir: IR, name: str) -> IR:
    found: IR = ir["root"]["dag"]["tasks"][name]
    return found


def loop(ir: IR) -> tuple[IR, IR]:
    """The loop's task and its component."""
    (task,) = (task for _, _, task in tasks(ir) if "parameterIterator" in task)
    return task, component_of(ir, task)


def gone_producer(ir: IR) -> str:
    root_task(ir, "report-bias")["inputs"]["artifacts"]["predictions"]["taskOutputArtifact"][
        "producerTask"
    ] = "collect"
    return "root/report-bias: predictions comes from collect, no task here"


def gone_output(ir: IR) -> str:
    ir["components"]["comp-prepare-data"]["outputDefinitions"]["artifacts"] = {}
    return "prepare-data has no output examples"


def undeclared_artifact(ir: IR) -> str:
    del loop(ir)[1]["inputDefinitions"]["artifacts"]
    return "which is no input here"


def undeclared_parameter(ir: IR) -> str:
    del ir["root"]["inputDefinitions"]["parameters"]["run_uri"]
    return "root/prepare-data: run_uri comes from run_uri, which is no input here"


def unknown_predecessor(ir: IR) -> str:
    root_task(ir, "write-report")["dependentTasks"].append("verdict")
    return "root/write-report: waits for verdict, no task here"


def forgotten_input(ir: IR) -> str:
    del root_task(ir, "score-divergence")["inputs"]["artifacts"]
    return "root/score-divergence: predictions is not given"


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
    return "root/log-tracking: no component"


def no_executor(ir: IR) -> str:
    del ir["deploymentSpec"]["executors"]["exec-log-tracking"]
    return "comp-log-tracking: no executor"


def output_into_loop(ir: IR) -> str:
    loop(ir)[0]["inputs"]["parameters"]["pipelinechannel--classes"] = {
        "taskOutputParameter": {"producerTask": "prepare-data", "outputParameterKey": "classes"}
    }
    return ": pipelinechannel--classes enters a loop"


def own_cache_key(ir: IR) -> str:
    root_task(ir, "report-bias")["cachingOptions"]["cacheKey"] = "bias"
    return "root/report-bias"


def other_image(ir: IR) -> str:
    ir["deploymentSpec"]["executors"]["exec-report-bias"]["container"]["image"] = "python:3.11"
    return "exec-report-bias: python:3.11"


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
    (cache_keys, own_cache_key),
    (foreign_images, other_image),
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


# --- the audit's own pipeline ---------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("shard_count", [1, 3])
def test_the_pipeline_keeps_every_rule(shard_count: int, rule: Callable[[IR], list[str]]) -> None:
    assert rule(audit(shard_count)) == []


@pytest.mark.parametrize("shard_count", [1, 3, 10, 40])
def test_shards_take_every_member_once(shard_count: int) -> None:
    items = json.loads(loop(audit(shard_count))[0]["parameterIterator"]["items"]["raw"])
    members = [member for item in items for member in Shard.parse(item).members]
    assert members == list(range(default_config().population.models))
    assert len(items) == min(shard_count, len(members))


def test_number_of_shards_changes_nothing_but_the_items() -> None:
    one, three = audit(1), audit(3)
    loop(one)[0]["parameterIterator"]["items"]["raw"] = ""
    loop(three)[0]["parameterIterator"]["items"]["raw"] = ""
    assert one == three


def test_the_pipeline_asks_for_the_folder_of_the_run_alone() -> None:
    assert audit()["root"]["inputDefinitions"] == {
        "parameters": {"run_uri": {"parameterType": "STRING"}}
    }


def test_every_component_is_a_step_of_the_pipeline() -> None:
    names = [where.rpartition("/")[2] for where, _, task in tasks(audit())]
    steps = sorted(name.replace("-", "_") for name in names if not name.startswith("for-loop"))
    assert steps == components.__all__


def test_compiling_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        compile_pipeline(default_config(), tmp_path / name)
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    assert yaml.safe_load((tmp_path / "a.yaml").read_text()) == audit(1)


def test_no_task_is_cached_by_kubeflow(tmp_path: Path) -> None:
    """KFP's key sees neither the library's code nor the run's folder; steps skip by themselves."""
    compile_pipeline(default_config(), tmp_path / "pipeline.yaml")
    text = (tmp_path / "pipeline.yaml").read_text()
    assert "executorLabel" in text
    assert "enableCache: true" not in text
