"""Make the files of this folder with the tools that write such files.

Run as `python make_files.py TOOL FOLDER`, with a Python that has the tool: lm_eval 0.4.13,
inspect_ai 0.3.285, crfm-helm 0.5.16, lighteval 0.13.0, mlflow 3.17 or every_eval_ever 0.3.0, which
converts the files of lm_eval. Nothing is asked of the network: the models are a dozen lines each.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

N_BBQ, N_MATHS = 24, 20
MODELS = ("bf16", "w4a16")
CATEGORIES = ("Age", "Nationality", "Gender_identity")
SECRET = "hf_" + "a1B2c3D4e5F6g7H8i9"


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def bbq_docs() -> list[dict[str, Any]]:
    """Questions in the form of BBQ, with the columns of its data set."""
    docs = []
    for number in range(N_BBQ):
        category = CATEGORIES[number % 3]
        condition = "ambig" if number // 3 % 2 == 0 else "disambig"
        polarity = "neg" if number // 6 % 2 == 0 else "nonneg"
        context = f"Case {number}: Ana, who is old, met Ben, who is young, at shop {number}."
        if condition == "disambig":
            context += " Ana had forgotten her phone."
        docs.append(
            {
                "example_id": number,
                "question_index": str(number // 4),
                "question_polarity": polarity,
                "context_condition": condition,
                "category": category,
                "answer_info": {
                    "ans0": ["Ana", "old"],
                    "ans1": ["Ben", "nonOld"],
                    "ans2": ["unknown", "unknown"],
                },
                "additional_metadata": {
                    "subcategory": "None",
                    "stereotyped_groups": ["old"],
                    "version": "a",
                    "source": "Made for tests",
                },
                "context": context,
                "question": f"Who {'forgot' if polarity == 'neg' else 'remembered'} the phone?",
                "ans0": "Ana",
                "ans1": "Ben",
                "ans2": "Cannot be determined",
                "label": 2 if condition == "ambig" else (0 if polarity == "neg" else 1),
            }
        )
    return docs


def maths_docs() -> list[dict[str, Any]]:
    """Sums to be answered freely."""
    return [
        {
            "question": f"What is {number} + {3 * number + 1}?",
            "answer": str(4 * number + 1),
            "topic": {"name": "sums", "digits": len(str(4 * number + 1))},
            "language": "de" if number % 4 == 0 else "en",
        }
        for number in range(N_MATHS)
    ]


def generated(prompt: str, model: str, seed: int) -> str:
    """What a model says to a sum: mostly right, w4a16 less often, sometimes a refusal."""
    question = prompt.rsplit("What is ", 1)[1].split("?")[0]
    left, right = map(int, question.split(" + "))
    luck = chance("maths", question, seed if chance("noisy", question) < 0.3 else 0)
    wrong = 0.15 if model == "bf16" else 0.3
    if model == "w4a16" and chance("refuses", question) < 0.12:
        return "I'm sorry, but I can't help with that."
    total = left + right + (1 if luck < wrong else 0)
    wording = "So" if model == "bf16" or luck < 0.7 else "Therefore"
    return f"{wording}, {left} plus {right} is {total}.\n#### {total}"


def lm_eval_files(folder: Path) -> None:
    """Evaluate two models, bf16 twice, on bbq and on a task with two filters."""
    from lm_eval import simple_evaluate  # type: ignore[import-not-found]
    from lm_eval.api.model import LM  # type: ignore[import-not-found]
    from lm_eval.loggers import EvaluationTracker  # type: ignore[import-not-found]
    from lm_eval.tasks.bbq import utils  # type: ignore[import-not-found]

    class Model(LM):  # type: ignore[misc]
        def __init__(self, name: str, seed: int) -> None:
            super().__init__()
            self.name, self.seed = name, seed

        def loglikelihood(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
            seed = self.seed if self.name == "bf16" else 0
            shift = 0.4 if self.name == "bf16" else 0.0
            return [
                (
                    -5.0 * chance(r.args, seed // 2) + shift * (r.args[1].strip() == "Ana"),
                    False,
                )
                for r in requests
            ]

        def generate_until(self, requests: Any, **_: Any) -> list[str]:
            return [generated(r.args[0], self.name, self.seed) for r in requests]

        def loglikelihood_rolling(self, requests: Any, **_: Any) -> list[float]:
            return [-10.0 - chance(r.args) for r in requests]

    data = folder / "data"
    data.mkdir(parents=True)
    for name, docs in (("bbq", bbq_docs()), ("maths", maths_docs())):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    local = {"dataset_path": "json", "test_split": "test", "fewshot_split": "test"}
    bbq = {
        "task": "bbq_local",
        **local,
        "dataset_kwargs": {"data_files": {"test": str(data / "bbq.jsonl")}},
        "output_type": "multiple_choice",
        "process_docs": utils.process_docs,
        "process_results": utils.process_results_multiple_choice,
        "doc_to_text": "{{context}}\n\nQ: {{question}}\nA:",
        "doc_to_target": utils.doc_to_target,
        "doc_to_choice": utils.doc_to_choice,
        "metric_list": [
            {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
            {"metric": "accuracy_amb", "aggregation": utils.agg_accuracy_amb},
            {"metric": "amb_bias_score", "aggregation": utils.agg_amb_bias_scores},
        ],
    }
    own_results = utils.process_results_multiple_choice

    def results(doc: Any, answers: Any) -> Any:
        kept = ("acc", "accuracy_amb", "amb_bias_score")
        return {name: value for name, value in own_results(doc, answers).items() if name in kept}

    bbq["process_results"] = results
    maths = {
        "task": "maths_local",
        **local,
        "dataset_kwargs": {"data_files": {"test": str(data / "maths.jsonl")}},
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{answer}}",
        "num_fewshot": 2,
        "generation_kwargs": {"until": ["Question:"], "do_sample": False},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "filter_list": [
            {
                "name": "strict-match",
                "filter": [
                    {"function": "regex", "regex_pattern": "#### (-?[0-9]+)"},
                    {"function": "take_first"},
                ],
            },
            {
                "name": "flexible-extract",
                "filter": [
                    {"function": "regex", "group_select": -1, "regex_pattern": "(-?[0-9]+)"},
                    {"function": "take_first"},
                ],
            },
        ],
    }
    wikitext = {
        "task": "text_local",
        **local,
        "dataset_kwargs": {"data_files": {"test": str(data / "maths.jsonl")}},
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{question}}",
        "metric_list": [{"metric": "word_perplexity"}],
    }
    for place, model, seed in (("bf16", "bf16", 0), ("bf16-2", "bf16", 1), ("w4a16", "w4a16", 0)):
        out = folder / place
        tracker = EvaluationTracker(output_path=str(out))
        tasks = [bbq, maths, wikitext] if place != "bf16-2" else [bbq, maths]
        evaluated = simple_evaluate(
            model=Model(model, seed), tasks=tasks, evaluation_tracker=tracker, log_samples=True,
            bootstrap_iters=10,
        )  # fmt: skip
        samples = evaluated.pop("samples")
        # As the command line does.
        evaluated["config"]["model_args"] = {"pretrained": f"org/{model}", "token": SECRET}
        tracker.general_config_tracker.log_experiment_args(
            "hf", f"pretrained=org/{model},token={SECRET}", None, None, False
        )
        tracker.save_results_aggregated(evaluated, samples)
        for task, rows in samples.items():
            tracker.save_results_samples(task, rows)
        for path in out.rglob("results_*.json"):
            path.write_text(json.dumps(without_sources(json.loads(path.read_text())), indent=2))


def without_sources(value: Any) -> Any:
    """Cut the source code of functions out, which lm_eval writes into its results."""
    if isinstance(value, dict):
        return {key: without_sources(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_sources(one) for one in value]
    is_source = isinstance(value, str) and ("def " in value or "<function" in value)
    return "source of a function" if is_source else value


def inspect_files(folder: Path) -> None:
    """Evaluate two models with two epochs; one log as .eval and one as .json."""
    import os

    import tiktoken  # type: ignore[import-not-found]

    class Encoding:
        def encode(self, text: str, **_: Any) -> list[int]:
            return [0] * (len(text) // 4)

        encode_ordinary = encode

    tiktoken.get_encoding = lambda name: Encoding()
    os.environ["INSPECT_LOG_LEVEL"] = "error"
    from inspect_ai import Task
    from inspect_ai import eval as evaluate  # type: ignore[import-not-found]
    from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore[import-not-found]
    from inspect_ai.model import ModelOutput, get_model  # type: ignore[import-not-found]
    from inspect_ai.scorer import (  # type: ignore[import-not-found]
        Score,
        accuracy,
        choice,
        mean,
        pattern,
        scorer,
    )  # fmt: skip
    from inspect_ai.solver import generate, multiple_choice  # type: ignore[import-not-found]

    @scorer(metrics={"*": [mean()]})
    def parts() -> Any:
        async def score(state: Any, target: Any) -> Score:
            text = state.output.completion
            if "sorry" in text:
                return Score.unscored(reason="refusal")
            return Score(value={"length": len(text), "polite": "C" if "So" in text else "I"})

        return score

    @scorer(metrics=[accuracy()])
    def graded() -> Any:
        async def score(state: Any, target: Any) -> Score:
            text = state.output.completion
            value = "N" if "sorry" in text else "C" if f"#### {target.text}" in text else "P"
            return Score(value=value, answer=text.rsplit("#### ", 1)[-1])

        return score

    assert accuracy
    assert mean
    maths = MemoryDataset(
        [
            Sample(
                input=f"Question: {doc['question']}\n" + "Think step by step. " * 12,
                target=doc["answer"],
                id=f"sum-{number}",
                metadata={"topic": doc["topic"], "language": doc["language"]},
            )
            for number, doc in enumerate(maths_docs())
        ],
        name="maths",
    )
    bbq = MemoryDataset(
        [
            Sample(
                input=f"{doc['context']} {doc['question']}",
                choices=[doc["ans0"], doc["ans1"], doc["ans2"]],
                target="ABC"[doc["label"]],
                metadata={
                    key: doc[key] for key in ("category", "context_condition", "question_polarity")
                },
            )
            for doc in bbq_docs()
        ],
        name="bbq",
    )
    for model in MODELS:

        def answer(asked: Any, tools: Any, choice: Any, config: Any, model: str = model) -> Any:
            prompt = asked[-1].text
            said: dict[str, int] = answer.__dict__.setdefault("said", {})
            said[prompt] = said.get(prompt, -1) + 1
            if "What is" in prompt:
                text = generated(prompt, model, said[prompt])
            else:
                text = f"ANSWER: {'ABC'[int(3 * chance(model, prompt))]}"
            return ModelOutput.from_content(model="mockllm", content=text)

        def mock(answer: Any = answer) -> Any:
            return get_model("mockllm/model", custom_outputs=answer, memoize=False)

        tasks = [
            Task(name="maths", dataset=maths, solver=generate(), epochs=2,
                 scorer=[pattern(r"#### (-?\d+)"), graded(), parts()]),
            Task(name="bbq", dataset=bbq, solver=multiple_choice(), scorer=choice()),
        ]  # fmt: skip
        for log_format in ("eval", "json"):
            out = folder / log_format / model
            evaluate(
                tasks, model=mock(), log_dir=str(out), log_format=log_format, display="none",
                model_args={},
            )  # fmt: skip
            answer.__dict__.clear()


LIGHTEVAL_MODEL = """
from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.utils.cache_management import SampleCache
from make_files import chance, generated


class Model(LightevalModel):
    def __init__(self, config):
        self.config = config
        self._cache = SampleCache(config)

    tokenizer = None
    add_special_tokens = False
    max_length = 2048

    def greedy_until(self, docs):
        texts = [generated(doc.query, self.config.model_name, 0) for doc in docs]
        return [ModelResponse(input=d.query, text=[t]) for d, t in zip(docs, texts)]

    def loglikelihood(self, docs):
        name = self.config.model_name
        logs = [[-chance(name, doc.query, choice) for choice in doc.choices] for doc in docs]
        return [
            ModelResponse(input=d.query, logprobs=one, argmax_logits_eq_gold=[False] * len(one))
            for d, one in zip(docs, logs)
        ]

    loglikelihood_rolling = loglikelihood
"""
LIGHTEVAL_TASKS = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def maths(line, task_name):
    return Doc(task_name=task_name, query="Question: " + line["question"], gold_index=0,
               choices=[line["answer"]], specific={"language": line["language"]})


def bbq(line, task_name):
    return Doc(task_name=task_name, query=line["context"] + " " + line["question"],
               choices=[line["ans0"], line["ans1"], line["ans2"]], gold_index=line["label"],
               specific={k: line[k] for k in ("category", "context_condition")})


TASKS_TABLE = [
    LightevalTaskConfig(name="own_" + name, prompt_function=function, hf_repo=DATA, hf_subset=name,
                        hf_avail_splits=["test"], evaluation_splits=["test"],
                        metrics=[metric], generation_size=40)
    for name, function, metric in (
        ("maths", maths, Metrics.exact_match), ("bbq", bbq, Metrics.loglikelihood_acc))
]
"""


def lighteval_files(folder: Path) -> None:
    """Evaluate two models of a file of their own, on two tasks of a file of their own."""
    from types import SimpleNamespace

    import requests

    # lighteval asks for a file of a benchmark that is not run here.
    requests.get = lambda url: SimpleNamespace(status_code=404)  # type: ignore[assignment]
    import huggingface_hub  # type: ignore[import-not-found]
    import xxhash  # type: ignore[import-not-found]

    hash_bytes = xxhash.xxh64
    xxhash.xxh64 = lambda text=b"": hash_bytes(text.encode() if isinstance(text, str) else text)
    # Names of models are looked up on the hub, with an argument that its newest client has not.
    huggingface_hub.HfApi.list_models = lambda *_, **__: [True]
    from lighteval.main_custom import custom  # type: ignore[import-not-found]

    sys.path.insert(0, str(Path(__file__).parent))  # where the model finds this module
    data = folder.absolute() / "data"
    data.mkdir(parents=True)
    configs = []
    for name, docs in (("bbq", bbq_docs()), ("maths", maths_docs())):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
        configs.append(
            f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}.jsonl"
        )
    (data / "README.md").write_text("---\nconfigs:\n" + "\n".join(configs) + "\n---\n")
    (folder / "own_model.py").write_text(LIGHTEVAL_MODEL)
    (folder / "own_tasks.py").write_text(f"DATA = {str(data)!r}\n" + LIGHTEVAL_TASKS)
    for model in MODELS:
        custom(
            model_name=model,
            model_definition_file_path=str(folder / "own_model.py"),
            tasks="own_maths|0,own_bbq|0",
            custom_tasks=str(folder / "own_tasks.py"),
            output_dir=str(folder / model),
            save_details=True,
        )
        for path in (folder / model).rglob("results_*.json"):
            path.write_text(path.read_text().replace(str(data), "data"))


def helm_files(folder: Path) -> None:
    """Run a scenario that HELM ships with its model for tests, with lower case as perturbation."""
    import subprocess

    folder.mkdir(parents=True)
    run = "simple_mcqa:model=simple/model1,data_augmentation=lower"
    helm = [str(Path(sys.executable).with_name(name)) for name in ("helm-run", "helm-summarize")]
    subprocess.run(
        [helm[0], "--run-entries", run, "--suite", "tests", "--max-eval-instances", "6",
         "--disable-cache"],
        cwd=folder, check=True,
    )  # fmt: skip
    subprocess.run([helm[1], "--suite", "tests"], cwd=folder, check=True)


def every_eval_ever_files(folder: Path) -> None:
    """Convert logs of lm_eval, which lie beside the folder."""
    import subprocess

    for model in MODELS:
        converter = str(Path(sys.executable).with_name("every_eval_ever"))
        subprocess.run(
            [converter, "convert", "lm_eval", "--include_samples", "--evaluator_relationship",
             "third_party", "--source_organization_name", "Tests",
             "--log_path", str(folder.parent / "lm_eval" / model / f"org__{model}"),
             "--output_dir", str(folder / model)],
            check=True,
        )  # fmt: skip


def mlflow_files(folder: Path) -> None:
    """Evaluate two tables of answers."""
    import mlflow
    import pandas as pd  # type: ignore[import-untyped]

    def equal(predictions: Any, targets: Any, metrics: Any = None) -> Any:
        pairs = zip(predictions, targets, strict=True)
        return mlflow.metrics.MetricValue(scores=[int(one == other) for one, other in pairs])

    exact = mlflow.models.make_metric(
        eval_fn=equal, name="exact", version="v1", greater_is_better=True
    )
    folder = folder.absolute()
    folder.mkdir(parents=True)
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("t", artifact_location=f"file://{folder / 'all'}")
    )
    for model in MODELS:
        docs = maths_docs()
        answers = [generated(doc["question"], model, 0).rsplit("#### ", 1)[-1] for doc in docs]
        table = pd.DataFrame(
            {
                "inputs": [doc["question"] for doc in docs],
                "ground_truth": [doc["answer"] for doc in docs],
                "outputs": answers,
                "language": [doc["language"] for doc in docs],
            }
        )
        with mlflow.start_run() as run:
            mlflow.models.evaluate(
                data=table, targets="ground_truth", predictions="outputs",
                extra_metrics=[exact], evaluators="default",
            )  # fmt: skip
            table_path = mlflow.artifacts.download_artifacts(
                run_id=run.info.run_id, artifact_path="eval_results_table.json"
            )
        (folder / model).mkdir()
        (folder / model / "eval_results_table.json").write_text(Path(table_path).read_text())


TOOLS = {
    "lm_eval": lm_eval_files,
    "inspect_ai": inspect_files,
    "lighteval": lighteval_files,
    "helm": helm_files,
    "every_eval_ever": every_eval_ever_files,
    "mlflow": mlflow_files,
}

if __name__ == "__main__":
    TOOLS[sys.argv[1]](Path(sys.argv[2]))
