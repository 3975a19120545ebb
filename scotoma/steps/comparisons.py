"""From the logs or boxes that `scotoma compare` is given to a document with a verdict."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from scotoma.answers.favourable import with_favourable
from scotoma.answers.note import AdmissionNote
from scotoma.commands.asking import Answer
from scotoma.commands.compare import CompareOptions
from scotoma.comparison.answers import admitted, are_outcomes
from scotoma.comparison.averages_section import compared_averages
from scotoma.comparison.boxes import BoxComparison
from scotoma.comparison.boxes_section import box_sections
from scotoma.comparison.decisions import decision_table, measure_decisions
from scotoma.comparison.detectors import BoxQuestion, compared_boxes
from scotoma.comparison.groups import groupings
from scotoma.comparison.logs import CompareQuestion, compared, measured, models_of
from scotoma.comparison.measure import LogComparison
from scotoma.comparison.section import compared_document, comparison_sections, listing_document
from scotoma.config.gate import chosen_rules, day
from scotoma.document import Section
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError
from scotoma.readers.logs import NoAnswerError, NoLogError, attributes_of
from scotoma.run.copies import place_here
from scotoma.run.judging import Judging
from scotoma.steps.compared import ComparedVerdict, judge_boxes, judge_compared
from scotoma.verdict.words import admission_lines


def list_logs(options: CompareOptions) -> Answer:
    """List the tasks, scores and attributes of the first model's logs."""
    columns = options.asked(CompareQuestion).columns
    known = attributes_of([place_here(options.paths[0])], columns=columns)
    return Answer(listing_document(known), known)


def compare_logs(options: CompareOptions) -> Answer:
    """Compare logs and judge the change; what keeps averages alone is compared without a verdict.

    Raises:
        ScotomaError: Options or logs that do not fit together.
    """
    question, out = options.asked(CompareQuestion), options.out
    if options.tracking and out is None:
        raise ConfigError("--tracking logs the audit that --out leaves; name its folder with --out")
    models, judging = models_of(question.paths, reruns=question.reruns), _judging(options)
    positive, verdict = "", None
    try:
        with compared(question, models, groupings(question.group)) as logs:
            found = [measured(one) for one in logs]
            pairs = admitted(logs) if all(one.binary for one in found) else []
            if options.positive and (not pairs or any(map(are_outcomes, pairs))):
                raise ConfigError(
                    "--positive needs tables whose answers are class names, and these are not; "
                    "leave it out"
                )
            if options.positive:
                classed = [with_favourable(pair, options.positive) for pair in pairs]
                pairs, positive = [pair for pair, _, _ in classed], classed[0][1]
            if pairs:
                verdict = judge_compared(
                    logs, pairs, out, judging, positive=positive, tracking=options.tracking,
                    quiet=options.quiet,
                )  # fmt: skip
            elif options.gate or out is not None:
                raise ConfigError(
                    "a verdict needs right and wrong answers, and score "
                    f"{found[0].metric} is a number; say from where on it is right with "
                    "--right-from, or leave out --out and --gate"
                )
    except (NoLogError, NoAnswerError):
        averages = compared_averages(question, models, audit=out is not None)
        if averages is None:
            raise
        unsure = judging.rules is not None and judging.rules.on_unsure == "fail"
        return Answer(*averages, exit_code=3 if unsure and options.gate else 0)
    rates = [measure_decisions(pair, positive) for pair in pairs if positive] or [[] for _ in logs]
    leading = [decision_table(own, positive) if own else None for own in rates]
    more = [
        {"paired_by": log.key, "positive": positive or None, "decisions": jsonable(own)}
        for log, own in zip(logs, rates, strict=True)
    ]
    sections = map(comparison_sections, found, [log.key for log in logs], leading)
    told = tuple(dict.fromkeys(note for log in logs for note in log.admission))
    admission = verdict.admission if verdict else told
    return _answer(options, found, sections, verdict, admission, more=more, told=told)


def compare_boxes(options: CompareOptions) -> Answer:
    """Compare detectors box by box, and judge the change.

    Raises:
        ScotomaError: Options or files that do not fit together.
    """
    judging = _judging(options)
    boxes, found = compared_boxes(options.asked(BoxQuestion))
    verdict = judge_boxes(boxes, options.out, judging, quiet=options.quiet)
    return _answer(options, found, map(box_sections, found), verdict, boxes.admission)


def _judging(options: CompareOptions) -> Judging:
    return Judging(chosen_rules(options.rules, options.margin), day(options.as_of or None))


def _answer(
    options: CompareOptions,
    found: Sequence[LogComparison | BoxComparison],
    sections: Iterable[Iterable[Section]],
    verdict: ComparedVerdict | None,
    admission: Sequence[AdmissionNote],
    *,
    more: Sequence[Mapping[str, Any]] = (),
    told: Sequence[AdmissionNote] = (),
) -> Answer:
    """Numbers of each compressed model, and the verdict on all.

    Args:
        options: What was asked.
        found: The numbers.
        sections: What each shows.
        verdict: None where scores are numbers.
        admission: What was folded, dropped or guessed.
        more: Further content of each.
        told: What stderr says of `admission`, so that the verdict does not repeat it.
    """
    beside = more or [{} for _ in found]
    comparisons = [jsonable(one) | dict(own) for one, own in zip(found, beside, strict=True)]
    content = {
        "version": 1,
        "comparisons": comparisons,
        "admission": [note.as_dict() for note in admission],
        "gate": None if verdict is None else json.loads(verdict.content),
    }
    sentences = [] if options.quiet else list(dict.fromkeys(note.sentence for note in told))
    document = compared_document(
        [one.models for one in found], sections, _verdict_section(verdict, sentences)
    )
    notes = [f"note    {sentence}" for sentence in sentences]
    notes += [] if options.out is None else [f"report  {options.out / 'report.html'}"]
    code = verdict.exit_code if verdict is not None and options.gate else 0
    return Answer(document, content, notes, code)


def _verdict_section(verdict: ComparedVerdict | None, told: Collection[str] = ()) -> Section:
    """Say what the verdict rests on, as the gate file has it, and what is not `told` already."""
    if verdict is None:
        missing = "Not judged: the score is a number; say from where on it is right, --right-from."
        return Section("verdict", "", [missing])
    gate = json.loads(verdict.content)
    lines: list[str] = []
    above = {*told} | {
        sentence for variant in gate["variants"] for sentence in variant["sentences"]
    }
    for variant in gate["variants"]:
        text = "; ".join(variant["sentences"])
        lines.append(f"{variant['verdict']:<7} {variant['name']}: {text}.")
        if small := variant["too_small"]:
            more = f" and {len(small) - 3} more" if len(small) > 3 else ""
            lines.append(f"Too small to judge: {', '.join(small[:3])}{more}.")
    asked = [one for one in verdict.admission if one.blocks_pass or one.rule != "chance"]
    lines += [f"note    {line}." for line in admission_lines(asked) if line not in above]
    if gate["scope"] == "shipped":
        lines.append("These numbers are about these two models; another training run may differ.")
    return Section("verdict", "", lines)
