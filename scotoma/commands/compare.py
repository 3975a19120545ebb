"""`scotoma compare`."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from scotoma.commands.asking import Answer, Options, argument, option

Asked = TypeVar("Asked")


class CompareOptions(Options):
    """What is compared; `scotoma/commands/kinds.py` says which kind reads which option."""

    panels: ClassVar[dict[str, str]] = {
        "label": "Columns and groups", "out": "The verdict", "listed": "Of logs",
        "so_far": "While an evaluation goes on", "truth": "Of boxes",
        "baseline": "Of one table", "techniques": "Of runs of techniques",
    }  # fmt: skip
    # fmt: off
    paths: tuple[str, ...] = argument(
        "Logs, tables, boxes or folders of them, here or in s3://: the original model first, then "
        "each compressed one. Or one table of the answers of all, or two finished audits.",
        (),)
    label: str = option(
        "", "Column of the true answers, in tables; default: the one with a usual name, and told.")
    predicted: tuple[str, ...] = option(
        (), "Column of the models' answers, in tables; of one table a column, or a pattern such as "
        "'pruned_*', a model. Can be repeated.")
    positive: tuple[str, ...] = option(
        (), "The favourable label, in tables: FNR, FPR and selection rate come first. Can be "
        "repeated: several count as one class.")
    group: tuple[str, ...] = option(
        (), "Columns, or dotted paths in logs, whose values are groups, separated by commas; of "
        "numbers also NAME:4 (groups of about equal size) or NAME:18,40,65 (where they begin), of "
        "dates NAME:month. Can be repeated.")
    pair_by: str = option(
        "", "Path of the question that is asked in several languages, prompts or accents.")
    across: str = option(
        "", "Path of the language, prompt or accent, or `task`: the loss of each is compared with "
        "that of --reference on the same questions.")
    reference: str = option("", "Value of --across to compare with. Default: the most frequent.")
    costs: str = option(
        "", "Table of several candidates: the column model, and numbers such as size and latency, "
        "which count in their frontier.")
    examples: str = option(
        "", "CSV or Parquet of labels and groups of the examples, joined by id or hash.")
    score: str = option(
        "", "Score of the logs to compare; default: accuracy. Of one table: `lower` or `higher` is "
        "better, or the `absolute_error` or `squared_error` of predicted numbers.")
    identifier: str = option("", "Column of ids, in tables.", name="--id")
    out: Path | None = option(None, "Folder for the audit: page, gate file, examples.")
    gate: bool = option(False, "Exit with the code of the verdict: 1 if it fails.")
    rules: Path | None = option(None, "Gate file (YAML). Default: the built-in rules.")
    margin: float | None = option(
        None, "Largest rise of an error rate that passes the built-in rules: 0.02 for two points.",
        gt=0, lt=1,
    )  # fmt: skip
    as_of: str = option("", "Day on which waivers are judged, YYYY-MM-DD. Default: today.")
    tracking: str = option("", "MLflow server or database to log the audit to; needs --out.")
    listed: bool = option(False, "List tasks, scores and attributes of logs.", name="--list")
    tasks: tuple[str, ...] = option(
        (), "Tasks to compare, separated by commas; those of a pattern such as 'mmlu_*' are a "
        "group, too. Can be repeated. Default: all, each a group of the verdict.")
    right_from: float | None = option(None, "Smallest score that counts as right.")
    filter_: str = option("", "Compare answers as scored after this filter.", name="--filter")
    reruns: bool = option(False, "Logs of one folder, or of one name, are reruns of one model.")
    refusal: tuple[str, ...] = option(
        (), "Regular expression of a refusal. Can be repeated. Default: usual ones.")
    allow_different_prompts: bool = option(False, "Compare even if prompts differ.")
    allow_missing: bool = option(False, "Compare even if some examples are in only one log.")
    so_far: bool = option(
        False, "The evaluation goes on: judge what is answered at any time, as often as you like.")
    of: int | None = option(
        None, "Examples of the whole evaluation; default: those of the original's logs.", ge=1)
    watch: float | None = option(
        None, "Read the logs again every so many seconds, until the verdict is certain.", gt=0)
    truth: str = option(
        "", "The paths are a detector's results, and this is COCO's instances JSON, or data.yaml "
        "of a dataset in YOLO's layout.")
    iou: float = option(0.5, "Smallest intersection over union of a found box.", gt=0, le=1)
    min_score: float = option(0.25, "Lowest score of a detection that is used.")
    baseline: tuple[str, ...] = option(
        (), "Column, or pattern, of the models to compare with. Can be repeated.")
    paired: bool = option(
        False, "Each model was made from its baseline model. Techniques whose names differ only in "
        "the number at their end, such as DD1 and DD2, share their runs.")
    advantaged: tuple[str, ...] = option(
        (), "The advantaged group: VALUE or COLUMN=VALUE. Can be repeated.")
    intersections: bool = option(False, "Measure every combination of groups too.")
    cluster: str = option("", "Column of rows that belong together, such as one person's.")
    strata: str = option("", "Column of strata, for the metrics CDDL and CDDPL.")
    feature: tuple[str, ...] = option(
        (), "Column of numbers, or a pattern, for the metric FT. Can be repeated.")
    four_fifths: bool = option(
        False, "Print only how often each group is selected beside the group selected most: the "
        "four-fifths rule of US law. Needs --positive; --label may be left out. Missing values are "
        "counted as unknown.")
    level: float = option(0.95, "Confidence level of the intervals.", gt=0, lt=1)
    seed: int = option(0, "Seed of the bootstrap for upper bounds.", ge=0)
    everything: bool = option(
        False, "Print every rate and metric before the conclusions.", name="--all")
    explain: bool = option(False, "Explain which question each of Clarify's metrics answers.")
    techniques: bool = option(
        False, "The paths are runs of training techniques: tables with the columns technique, run, "
        "metric and value; finished audits, one a technique, as FOLDER or TECHNIQUE=FOLDER; or a "
        "configuration with a section tournament, which is trained.")
    raw: bool = option(
        False, "The paths hold bias and accuracy of runs: tables, TECHNIQUE.yaml, .npz files or "
        "folders of them. Techniques are judged as those of finished audits are.")
    base: tuple[str, ...] = option(
        (), "Technique that others are compared with; once a task. Default: those called base or "
        "TASK-Base; none in tables without --raw.")
    protocol: Literal["sound", "published"] = option(
        "sound", "sound, or published to repeat the tests of the fixed-seed study.")
    # fmt: on

    def asked(self, question: type[Asked]) -> Asked:
        """What a kind of comparison is asked: a field each of the options of the same name."""
        return question(**{name: getattr(self, name) for name in signature(question).parameters})


def compare(options: CompareOptions) -> Answer:
    """Compare an original and compressed models, and judge the change.

    Reads logs of lm-evaluation-harness, inspect_ai, HELM, lighteval, NeMo-Skills, NeMo Gym,
    promptfoo, Every Eval Ever and timm, and tables; examples are paired by content or id. With
    --truth, compares detectors box by box. One table of predictions is judged against its labels:
    which groups a model fails. Of two finished audits: what got better or worse. With --techniques:
    which way of training is fairer.
    """
    from scotoma.commands.kinds import kind_of

    return kind_of(options).answer(options)
