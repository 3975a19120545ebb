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
    if luck < 0.05:
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


TOOLS = {"lm_eval": lm_eval_files, "inspect_ai": inspect_files}

if __name__ == "__main__":
    TOOLS[sys.argv[1]](Path(sys.argv[2]))
