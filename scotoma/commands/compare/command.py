"""`scotoma compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["compare"]

IOU, LEAST = 0.5, 0.25  # of a box that is found, and of a detection that is used


def compare(
    logs: Annotated[
        list[str],
        typer.Argument(
            help="Logs or folders of logs, here or in s3://: the original model first, then each "
            "compressed one."
        ),
    ],
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Attributes whose values are groups, by dotted path, separated by commas; numbers "
            "also as PATH:3 or PATH:18,40,65. Can be repeated."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="CSV or Parquet with attributes of the examples, joined by id or hash."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="List tasks, scores and attributes, and exit.")
    ] = False,
    score: Annotated[str | None, typer.Option(help="Score to compare. Default: accuracy.")] = None,
    right_from: Annotated[
        float | None, typer.Option(help="Smallest score that counts as right.")
    ] = None,
    score_filter: Annotated[
        str, typer.Option("--filter", help="Compare answers as scored after this filter.")
    ] = "",
    task: Annotated[
        list[str] | None, typer.Option(help="Task to compare. Can be repeated. Default: all.")
    ] = None,
    reruns: Annotated[
        bool,
        typer.Option(
            "--reruns", help="Logs of one folder, or of one name, are reruns of one model."
        ),
    ] = False,
    identifier: Annotated[str, typer.Option("--id", help="Column of ids, in tables.")] = "",
    label: Annotated[str, typer.Option(help="Column of the true answers, in tables.")] = "",
    predicted: Annotated[str, typer.Option(help="Column of the models' answers, in tables.")] = "",
    positive: Annotated[
        str,
        typer.Option(
            help="The favourable label, in tables: FNR, FPR and selection rate come first."
        ),
    ] = "",
    refusal: Annotated[
        list[str] | None,
        typer.Option(help="Regular expression of a refusal. Can be repeated. Default: usual ones."),
    ] = None,
    allow_different_prompts: Annotated[
        bool,
        typer.Option("--allow-different-prompts", help="Compare even if prompts differ."),
    ] = False,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Compare even if some examples are in only one log."),
    ] = False,
    truth: Annotated[
        str | None,
        typer.Option(
            help="The logs are a detector's results, and this is COCO's instances JSON, or "
            "data.yaml of a dataset in YOLO's layout."
        ),
    ] = None,
    iou: Annotated[
        float, typer.Option(help="With --truth: smallest intersection over union of a found box.")
    ] = IOU,
    min_score: Annotated[
        float, typer.Option(help="With --truth: lowest score of a detection that is used.")
    ] = LEAST,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the audit: page, gate file, examples.")
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with the code of the verdict: 1 if it fails.")
    ] = False,
    tracking: Annotated[
        str, typer.Option(help="MLflow server or database to log the audit to; needs --out.")
    ] = "",
    rules: options.Rules = None,
    as_of: options.AsOf = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare evaluation logs of an original and a compressed model, and judge the change.

    Reads logs of lm-evaluation-harness, inspect_ai, HELM, lighteval, Every Eval Ever and timm, and
    tables. Examples are paired by content or id. With --truth, compares two detectors box by box.
    """
    from scotoma.run.copies import place_here

    places = tuple(map(place_here, logs))
    table = None if groups is None else place_here(groups)
    if truth is not None:
        from scotoma.commands.compare.run import BoxQuestion, run_compare_boxes
        from scotoma.errors import ConfigError
        from scotoma.readers.boxes import ground_truth_here

        others = {
            "--list": show, "--score": score, "--right-from": right_from, "--task": task,
            "--filter": score_filter, "--reruns": reruns, "--id": identifier, "--label": label,
            "--predicted": predicted, "--positive": positive, "--refusal": refusal,
            "--allow-different-prompts": allow_different_prompts,
            "--allow-missing": allow_missing, "--tracking": tracking,
        }  # fmt: skip
        if unused := [name for name, value in others.items() if value not in (None, False, "")]:
            raise ConfigError(
                f"{unused[0]} is for evaluation logs, and --truth says that these are detections; "
                "leave one of them out"
            )
        boxes = BoxQuestion(ground_truth_here(truth), iou, min_score, tuple(group or ()), table)
        code = run_compare_boxes(
            places, boxes, out=out, rules=rules, as_of=as_of, as_json=as_json, quiet=quiet
        )
        if gate:
            raise typer.Exit(code)
        return
    changed = {"--iou": iou != IOU, "--min-score": min_score != LEAST}
    if unused := [name for name, value in changed.items() if value]:
        from scotoma.errors import ConfigError

        raise ConfigError(
            f"{unused[0]} is for detections, and no ground truth is named; add --truth, or leave "
            f"{unused[0]} out"
        )
    from scotoma.commands.compare.run import CompareQuestion, run_compare

    question = CompareQuestion(
        logs=places, groups=tuple(group or ()), group_table=table, score=score,
        right_from=right_from, score_filter=score_filter, tasks=tuple(task or ()), reruns=reruns,
        identifier=identifier, label=label, predicted=predicted, refusals=tuple(refusal or ()),
        allow_different_prompts=allow_different_prompts, allow_missing=allow_missing,
        positive=positive,
    )  # fmt: skip
    code = run_compare(
        question, out=out, tracking=tracking, rules=rules, as_of=as_of, gate=gate, show=show,
        as_json=as_json, quiet=quiet,
    )  # fmt: skip
    if gate:
        raise typer.Exit(code)
