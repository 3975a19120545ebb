"""The compare command: two logs, every number about what changed, and a verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from scotoma.commands.asking import print_out
from scotoma.commands.compare.answers import admitted
from scotoma.commands.compare.audit import judge_compared
from scotoma.commands.compare.averages import compared_averages
from scotoma.commands.compare.boxes import BoxQuestion, compared_boxes, judged_boxes
from scotoma.commands.compare.boxes_text import box_sections
from scotoma.commands.compare.decisions import (
    decision_table,
    favourable_answer,
    measure_decisions,
)
from scotoma.commands.compare.groups import groupings
from scotoma.commands.compare.logs import ComparedLogs, CompareQuestion, compared, models_of
from scotoma.commands.compare.text import (
    compared_verdict_section,
    comparison_sections,
    listing_sections,
)
from scotoma.commands.gate import chosen_rules, day
from scotoma.comparison.measure import LogComparison, is_lower_better, measure_rows
from scotoma.document import Section
from scotoma.document.jsonable import jsonable
from scotoma.document.text import section_lines
from scotoma.errors import ConfigError
from scotoma.readers.logs import NoAnswerError, NoLogError, attributes_of
from scotoma.run.judging import Judging

__all__ = ["BoxQuestion", "CompareQuestion", "run_compare", "run_compare_boxes"]


def run_compare(
    question: CompareQuestion,
    *,
    out: Path | None,
    tracking: str = "",
    rules: Path | None,
    as_of: str | None,
    gate: bool,
    show: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare logs, judge the change and print both.

    Args:
        question: What is asked.
        out: Folder of the audit; None for none.
        tracking: MLflow's server or database; empty to log nowhere.
        rules: Gate file; None for the default rules.
        as_of: Day that decides which waivers have expired.
        gate: Whether the verdict is asked for, so that a score that has none is refused.
        show: List what the logs hold instead.
        as_json: Print JSON.
        quiet: Write nothing to stderr.

    Returns:
        What `scotoma gate` would end with; 0 where the score has no verdict.

    Raises:
        ScotomaError: Options or logs that do not fit together.
    """
    if show:
        known = attributes_of(question.logs[:1], columns=question.columns)
        _print(listing_sections(known), known if as_json else None)
        return 0
    if tracking and out is None:
        raise ConfigError("--tracking logs the audit that --out leaves; name its folder with --out")
    models = models_of(question)
    judging = Judging(chosen_rules(rules), day(as_of))
    try:
        with compared(question, models, groupings(question.groups)) as logs:
            found = [_measured(one) for one in logs]
            pairs = admitted(logs) if all(one.binary for one in found) else []
            positive = favourable_answer(pairs, question.positive) if question.positive else ""
            decisions = [measure_decisions(one, positive) for one in pairs if positive]
            decisions = decisions or [[] for _ in logs]
            verdict = None
            if pairs:
                verdict = judge_compared(
                    logs, pairs, out, judging, positive=positive, tracking=tracking, quiet=quiet
                )
            elif gate or out is not None:
                raise ConfigError(
                    "a verdict needs right and wrong answers, and score "
                    f"{found[0].metric} is a number; say from where on it is right with "
                    "--right-from, or leave out --out and --gate"
                )
    except (NoLogError, NoAnswerError):
        averages = compared_averages(question, models, audit=out is not None)
        if averages is None:
            raise
        _print(averages[0], averages[1] if as_json else None)
        return 3 if judging.rules is not None and judging.rules.on_unsure == "fail" else 0
    told = tuple(dict.fromkeys(note for log in logs for note in log.admission))
    content = {
        "version": 1,
        "comparisons": [
            jsonable(one)
            | {"paired_by": log.key, "positive": positive or None, "decisions": jsonable(rates)}
            for one, log, rates in zip(found, logs, decisions, strict=True)
        ],
        "admission": [note.as_dict() for note in (verdict.admission if verdict else told)],
        "gate": None if verdict is None else json.loads(verdict.content),
    }
    sections: list[Section] = []
    for one, log, rates in zip(found, logs, decisions, strict=True):
        leading = decision_table(rates, positive) if rates else None
        sections += comparison_sections(one, log.key, leading)
    sentences = [] if quiet else list(dict.fromkeys(note.sentence for note in told))
    _print([*sections, compared_verdict_section(verdict, sentences)], content if as_json else None)
    sys.stderr.writelines(f"note    {sentence}\n" for sentence in sentences)
    if out is not None and not quiet:
        sys.stderr.write(f"report  {out / 'report.html'}\n")
    return 0 if verdict is None else verdict.exit_code


def run_compare_boxes(
    logs: tuple[Path, ...],
    question: BoxQuestion,
    *,
    out: Path | None,
    rules: Path | None,
    as_of: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare detectors, judge the change and print both.

    Args:
        logs: Files of detections, the original first.
        question: What is asked.
        out: As for `run_compare`.
        rules: As for `run_compare`.
        as_of: As for `run_compare`.
        as_json: As for `run_compare`.
        quiet: As for `run_compare`.

    Returns:
        What `scotoma gate` would end with.

    Raises:
        ScotomaError: Options or files that do not fit together.
    """
    judging = Judging(chosen_rules(rules), day(as_of))
    compared, found = compared_boxes(question, models_of(CompareQuestion(logs=logs)))
    verdict = judged_boxes(compared, out, judging, quiet=quiet)
    sections = [section for one in found for section in box_sections(one)]
    content = {
        "version": 1,
        "comparisons": [jsonable(one) for one in found],
        "admission": [note.as_dict() for note in compared.admission],
        "gate": json.loads(verdict.content),
    }
    _print([*sections, compared_verdict_section(verdict)], content if as_json else None)
    if out is not None and not quiet:
        sys.stderr.write(f"report  {out / 'report.html'}\n")
    return verdict.exit_code


def _measured(one: ComparedLogs) -> LogComparison:
    lower = is_lower_better(one.metric)
    return measure_rows(
        one.rows, models=one.models, metric=one.metric, lower_is_better=lower,
        masks={key: mask for key, mask in one.groups.by_key.items() if key != "all"},
        wording=one.wording,
    )  # fmt: skip


def _print(sections: list[Section], content: Any) -> None:
    if content is None:
        lines = [line for one in sections for line in ["", *section_lines(one)]]
        print_out("\n".join(lines[1:]) + "\n", sys.stdout)
    else:
        text = json.dumps(jsonable(content), indent=1, allow_nan=False, ensure_ascii=False)
        print_out(text + "\n", sys.stdout)
