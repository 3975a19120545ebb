"""From the logs or boxes of `scotoma compare` to a verdict: in memory, or audited in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from scotoma.answers.admission import NO_ANSWER, NO_LABEL, check_language, is_label, unanswered_note
from scotoma.answers.favourable import with_favourable
from scotoma.answers.natural import natural_order
from scotoma.answers.note import AdmissionNote
from scotoma.answers.pair import Pair
from scotoma.audit import GateFile, plain, read_audit, read_gate, write_part
from scotoma.audit.base import Row
from scotoma.audit.document import DENSE, MeasuredRows
from scotoma.commands.asking import Answer
from scotoma.commands.compare import CompareOptions
from scotoma.comparison.answers import admitted, are_outcomes
from scotoma.comparison.averages_section import compared_averages
from scotoma.comparison.behaviour import ending_rows
from scotoma.comparison.boxes import BoxComparison
from scotoma.comparison.candidates import candidates, candidates_section, read_costs
from scotoma.comparison.decisions import decision_table, measure_decisions
from scotoma.comparison.detectors import BoxQuestion, ComparedBoxes, compared_boxes
from scotoma.comparison.logs import (
    ComparedLogs,
    CompareQuestion,
    compared,
    measured,
    measured_strata,
    models_of,
)
from scotoma.comparison.measure import LogComparison, described_rows, with_tasks
from scotoma.comparison.section import (
    box_sections,
    compared_document,
    comparison_sections,
    listing_document,
)
from scotoma.comparison.strata import Strata, strata_section
from scotoma.config.gate import refuse_unfit_rules
from scotoma.config.gate_changes import SlicesRule
from scotoma.config.gate_levels import LevelRule
from scotoma.config.sections import SliceSettings
from scotoma.datasets import AuditedExamples
from scotoma.datasets.examples import FEATURES
from scotoma.detection.table import FOUND, MEASURED, MISSED
from scotoma.document import Document, Section
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.inputs import Codes
from scotoma.predictions import Predictions
from scotoma.predictions.reruns import MARK, rerun_rows
from scotoma.readers.logs import NoAnswerError, NoLogError, attributes_of
from scotoma.run.folder import INPUTS
from scotoma.run.judging import Judging
from scotoma.run.mirror import place_here
from scotoma.steps.import_predictions import (
    blocking,
    detectors_of,
    endings_file,
    precision_file,
)
from scotoma.steps.in_memory import AnswersInMemory, gate_of
from scotoma.steps.inputs import texts_file, write_compared_notes
from scotoma.steps.measures.pairs import as_examples
from scotoma.steps.measures.rates import class_rates_asked
from scotoma.verdict.words import admission_lines, these_models, too_small

MOST_TEXTS = 5_000  # examples of a variant whose texts are kept for the page
Verdict = tuple[GateFile, Sequence[AdmissionNote]]  # and what its audit says of the answers


def judge_compared(
    compared: Sequence[ComparedLogs],
    pairs: Sequence[Pair],
    options: CompareOptions,
    positive: str,
) -> Verdict:
    """Judge compared logs.

    Args:
        compared: The original and each compressed model.
        pairs: Their answers, from `admitted`.
        options: What was asked; without `out` no audit is left behind.
        positive: The answer that is the favourable outcome; empty for none.

    Raises:
        ScotomaError: What an audit of these answers refuses.
    """
    answers, strata = _together(compared, pairs), compared[0].strata
    endings = _endings(compared, answers)
    judging = _judging(options)

    def write(folder: Path) -> Path:
        more: dict[str, Any] = {"tracking": {"uri": options.tracking or "off"}}
        more["label"] = {"column": "label"} | ({"positive": positive} if positive else {})
        if strata is not None:
            more |= {
                "cluster": {"column": "cluster", "across": strata.attribute},
                "advantaged": {strata.attribute: strata.reference},
            }
        reruns = answers.examples.ids[0].endswith(f"{MARK}1")
        path = _write_audit(answers, folder, compared[0].models[0], reruns=reruns, **more)
        write_compared_notes(folder, answers.notes)
        _write_texts(compared, folder)
        write_part(endings_file(folder), endings)
        return path

    if options.out is None:
        return _judge_answers(
            answers, judging, positive=positive, strata=strata, endings=endings.rows
        )
    return _audit_answers(answers, write, options.out, judging, quiet=options.quiet)


def _judge_answers(
    answers: AnswersInMemory,
    judging: Judging,
    *,
    positive: str = "",
    detectors: MeasuredRows | None = None,
    strata: Strata | None = None,
    endings: tuple[Row, ...] = (),
) -> Verdict:
    """Judge answers without leaving an audit behind.

    Nobody will read its numbers, so that only those are measured which a rule asks for.

    Args:
        answers: Of the original and each compressed model.
        judging: Rules and day.
        positive: The answer that is the favourable outcome; empty for none.
        detectors: AP and AR, where the examples are boxes.
        strata: Whose losses are judged beside that of their reference.
        endings: How answers ended.
    """
    dense, *others = answers.populations
    named = {own.variant: own for own in others}  # an audit of files has them in natural order
    answers = replace(answers, populations=(dense, *(named[name] for name in natural_order(named))))
    examples, rules = answers.examples, judging.rules
    if rules is not None:
        keys = examples.partition().keys
        refuse_unfit_rules(rules, keys, labelled=examples.labelled, scored=False)
    asked = () if rules is None else rules.rules  # the default rules ask for none of these
    levels = {rule.metric.partition(".")[0] for rule in asked if isinstance(rule, LevelRule)}
    described = [*examples.attributes, *examples.features.columns]
    searches = any(isinstance(rule, SlicesRule) for rule in asked)
    audit = answers.audit(
        positive=positive or None,
        advantaged={} if strata is None else {strata.attribute: strata.reference},
        strata=None if strata is None else strata.attribute, endings=endings,
        clarify="clarify" in levels, run_to_run="fairness" in levels,
        class_rates=rules is not None and bool(class_rates_asked(rules)),
        slices=SliceSettings(features=described) if searches else None, detectors=detectors,
        project="compare",
    )  # fmt: skip
    return gate_of(audit, rules, judging.as_of), audit.admission


def _endings(compared: Sequence[ComparedLogs], answers: AnswersInMemory) -> MeasuredRows:
    """How answers ended, of the groups of an audit; no rows where no log says it."""
    keys, (_, *others) = answers.examples.partition().keys, answers.populations
    rows = [
        {"variant": own.variant, **row}
        for one, own in zip(compared, others, strict=True)
        for row in ending_rows(
            one.rows.table, with_tasks(one.groups.by_key, one.rows.table), one.rows.clusters
        )
        if row["group"] in keys
    ]
    return MeasuredRows.model_validate(jsonable({"rows": rows}))


def _audit_answers(
    answers: AnswersInMemory,
    write: Callable[[Path], Path],
    out: Path,
    judging: Judging,
    *,
    quiet: bool,
) -> Verdict:
    """Audit answers, in a folder with all that an audit leaves.

    What is refused leaves no folder that was not there before.

    Args:
        answers: Of the original and each compressed model.
        write: Writes them into a folder, and returns the configuration of their audit.
        out: Folder of the run; what it reads lies in `compared/`.
        judging: Rules and day.
        quiet: Whether to write nothing to stderr.
    """
    from scotoma.config import load_config
    from scotoma.steps.audit import run_audit

    if out.is_dir() and any(out.iterdir()) and not (out / INPUTS).is_dir():
        raise ConfigError(f"output folder {out} holds other files; choose another --out")
    begun = (out / INPUTS).is_dir()
    try:
        config = load_config(write(out / INPUTS))
        run_audit(config.completed(), str(out), judging, quiet=quiet)
    except (ConfigError, DataError):
        if not begun:
            shutil.rmtree(out, ignore_errors=True)
        raise
    return read_gate(out / "gate.json"), read_audit(out / "audit.json").admission


def _together(compared: Sequence[ComparedLogs], pairs: Sequence[Pair]) -> AnswersInMemory:
    """Bring the answers of all models to the examples that all have answered."""
    tables = [one.rows.table for one in compared]
    ids = [table.select(id=pl.concat_str("task", pl.lit("/"), "example_id"))["id"]
           for table in tables]  # fmt: skip
    rows = _common_rows(ids)
    answers = AnswersInMemory.of(pairs, rows)
    first, *names = (own.variant for own in answers.populations)
    if first in names:
        raise ConfigError(
            f"a compressed model must not be called {first}, which the original is, got "
            f"{', '.join(names)}; rename its log"
        )
    examples, own = answers.examples, ids[0].gather(rows[0])
    if own.is_duplicated().any():  # the rows of an example are its reruns
        again = pl.int_range(1, pl.len() + 1).over("id")
        own = own.to_frame().select(pl.concat_str("id", pl.lit(MARK), again))["id"]
    features = described_rows(tables[0][rows[0]])
    tasks = [one for one in features if one.name == "task"]
    tasks = [] if "task" in examples.attributes else tasks
    examples = replace(
        examples,
        table=examples.table.with_columns(
            own.alias("example_id"), features.drop("task", strict=False).to_struct(FEATURES), *tasks
        ),
        attributes=(*examples.attributes, *(one.name for one in tasks)),
    )
    return AnswersInMemory(
        examples,
        tuple(
            replace(one, example_ids=tuple(own), admission=_admission(one, examples, called))
            for one, called in zip(
                answers.populations, (compared[0].models[0], *names), strict=True
            )
        ),
        # Answers that are missing are told as the audit counts them.
        notes=tuple(note for note in answers.notes if note.rule != "unanswered"),
    )


def _common_rows(ids: Sequence[pl.Series]) -> list[Codes]:
    """Rows of each table by which all have the same examples, each equally often.

    The rows of an example stand together; where they are fewer than elsewhere they are repeated.

    >>> _common_rows([pl.Series("id", ["a", "b"]), pl.Series("id", ["b", "b", "a", "a"])])
    [array([0, 0, 1, 1]), array([2, 3, 0, 1])]
    """
    if len(ids) == 1:
        return [np.arange(len(ids[0]))]
    sides = [
        own.to_frame("id").with_row_index("row").group_by("id", maintain_order=True)
        .agg(pl.col("row").first().alias(f"first {place}"), pl.len().alias(f"times {place}"))
        for place, own in enumerate(ids)
    ]  # fmt: skip
    both = sides[0]
    for side in sides[1:]:
        both = both.join(side, on="id", maintain_order="left")
    counts = both.select(pl.col("^times .*$")).unique()
    known = {own: rerun_rows(own) for own in counts.rows()}
    times = np.array([known[own] for own in both.select(counts.columns).iter_rows()], np.intp)
    again = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return [
        np.repeat(both[f"first {place}"].to_numpy().astype(np.intp), times)
        + again % np.repeat(both[f"times {place}"].to_numpy().astype(np.intp), times)
        for place in range(len(ids))
    ]


def _admission(
    own: Predictions, examples: AuditedExamples, called: str
) -> tuple[AdmissionNote, ...]:
    """Tell which answers of a population are no label, and how many are missing."""
    labels = [*filter(is_label, own.classes)]
    counts = np.bincount(own.predicted.ravel(), minlength=len(own.classes))
    answers = {
        name.removesuffix(NO_LABEL): int(rows)
        for name, rows in zip(own.classes, counts, strict=True)
        if rows and name != NO_ANSWER
    }
    notes = blocking(check_language(called, labels, answers)[1], own.variant)
    silent = as_examples(examples).unanswered(own)
    return (*notes, *unanswered_note(silent, own.variant))


def _write_audit(
    answers: AnswersInMemory, folder: Path, baseline: str, *, reruns: bool = False, **more: Any
) -> Path:
    """Write the tables and the configuration of an audit of predictions.

    Args:
        answers: Of the original and each compressed model.
        folder: For the files; it is made.
        baseline: The original.
        reruns: Whether the rows of a cluster are reruns of one example.
        **more: Other keys of the configuration.

    Returns:
        The configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    examples, attributes = answers.examples, answers.examples.attributes
    table, features = examples.table, examples.features
    rerun = pl.int_range(pl.len()).over("example_id") if reruns else pl.lit(0)
    ids = table["example_id"].str.replace(rf"{MARK}\d+$", "") if reruns else table["example_id"]
    columns = {"example_id": ids, "label": table["label"]}
    if examples.clusters is not None and "cluster" in more:
        columns["cluster"] = table["cluster"]
    columns |= {f"group {name}": table[name] for name in attributes}
    described = pl.DataFrame(columns | {one.name: one for one in features})
    described.unique("example_id", keep="first", maintain_order=True).write_parquet(
        folder / "examples.parquet"
    )
    names = [None if one == NO_ANSWER else one.removesuffix(NO_LABEL) for one in examples.classes]
    written = [
        pl.DataFrame({"example_id": ids}).with_columns(
            variant=pl.lit(own.variant if place else baseline), model=pl.lit("0"),
            rerun=rerun.cast(pl.String),
            predicted=pl.Series(names, dtype=pl.String)[own.predicted[:, 0]],
        )
        for place, own in enumerate(answers.populations)
    ]  # fmt: skip
    pl.concat(written).write_parquet(folder / "predictions.parquet")
    config = {
        "version": 1,
        "project": "compare",
        "source": {
            "kind": "predictions",
            "files": str((folder / "predictions.parquet").absolute()),
            "examples": str((folder / "examples.parquet").absolute()),
            "classes": [*filter(is_label, examples.classes)],
        },
        "label": {"column": "label"},
        "groups": {name: {"column": f"group {name}", "bins": "each"} for name in attributes},
        "slices": {"features": [*attributes, *features.columns]},
        "tracking": {"uri": "off"},
        "baseline": baseline,
    } | more
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def _write_texts(compared: Sequence[ComparedLogs], folder: Path) -> None:
    """Write what was asked and answered, for the page: all, or of many examples those that change.

    Args:
        compared: As for `judge_compared`.
        folder: That of the tables.
    """
    tables = []
    for one in compared:
        rows = one.rows.table.filter((pl.col("rerun_before") == 0) & (pl.col("rerun_after") == 0))
        if rows.height > MOST_TEXTS:
            score = pl.col("score_before") != pl.col("score_after")
            answer = pl.col("answer_hash_before").ne_missing(pl.col("answer_hash_after"))
            rows = rows.filter(score | answer).head(MOST_TEXTS)
        for task, own in rows.group_by("task", maintain_order=True):
            before, after = (
                log[str(task[0])]
                .scan_texts()
                .filter(pl.col("row").is_in(own[f"row_{side}"].implode()))
                .select("row", "prompt", "target", pl.coalesce("text", "answer").alias(side))
                .collect()
                for side, log in zip(("before", "after"), one.logs, strict=True)
            )
            tables.append(
                own.select("task", "example_id", "row_before", "row_after")
                .join(before, left_on="row_before", right_on="row", how="left")
                .join(after.select("row", "after"), left_on="row_after", right_on="row", how="left")
                .select(
                    pl.lit(one.models[1]).alias("variant"),
                    pl.concat_str("task", pl.lit("/"), "example_id").alias("example_id"),
                    *("prompt", "target", "before", "after"),
                )
            )
    pl.concat(tables).write_parquet(texts_file(folder))


def judge_boxes(compared: ComparedBoxes, options: CompareOptions) -> Verdict:
    """Judge whether more boxes are missed, as an audit of predictions.

    Args:
        compared: From `compared_boxes`.
        options: What was asked; without `out` no audit is left behind.
    """
    answers = _as_answers(compared)
    first, *_ = compared.found
    by_variant = {
        (DENSE if name == first else name): [own] for name, own in compared.scores.items()
    }
    detectors = detectors_of(by_variant, compared.images, {}, compared.admission)

    def write(folder: Path) -> Path:
        path = _write_audit(answers, folder, first, cluster={"column": "cluster"})
        write_part(precision_file(folder), detectors)
        return path

    if options.out is None:
        return _judge_answers(answers, _judging(options), detectors=detectors)
    return _audit_answers(answers, write, options.out, _judging(options), quiet=options.quiet)


def _as_answers(compared: ComparedBoxes) -> AnswersInMemory:
    """Boxes as examples, which detectors find or miss."""
    table, groups, classes = compared.table, compared.groups.values, (FOUND, MISSED)
    plain = [pl.col(name).cast(pl.Float64) for name in MEASURED if table[name].n_unique() > 1]
    columns = [pl.lit("test").alias("split"), pl.col("image_id").alias("cluster")]
    columns += [pl.struct(plain).alias(FEATURES)] if plain else []
    examples = table.select("example_id", "label", *columns)
    examples = examples.with_columns(own.alias(name) for name, own in groups.items())
    ids = tuple(examples["example_id"])
    return AnswersInMemory(
        AuditedExamples(examples, classes, tuple(groups), ()),
        tuple(
            Predictions(
                name if place else DENSE, (~one.found).astype(np.uint8)[:, None], ids, (0,), classes
            )
            for place, (name, one) in enumerate(compared.found.items())
        ),
    )


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
    question, judged = options.asked(CompareQuestion), options.out is not None
    if options.tracking and not judged:
        raise ConfigError("--tracking logs the audit that --out leaves; name its folder with --out")
    models, judging = models_of(question.paths, reruns=question.reruns), _judging(options)
    names = [model.name for model in models[1:]]
    if options.costs and len(names) < 2:
        raise ConfigError("--costs is for several candidates, got one; leave it out")
    costs = read_costs(options.costs, names) if options.costs else {}
    positive, verdict = "", None
    try:
        with compared(question, models) as logs:
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
                verdict = judge_compared(logs, pairs, options, positive)
            elif options.gate or judged:
                raise ConfigError(
                    "a verdict needs right and wrong answers, and score "
                    f"{found[0].metric} is a number; say from where on it is right with "
                    "--right-from, or leave out --out and --gate"
                )
    except (NoLogError, NoAnswerError):
        averages = compared_averages(question, models, audit=judged)
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
    losses = [measured_strata(log) for log in logs]
    if question.strata is not None:
        more = [own | {"strata": jsonable(one)} for own, one in zip(more, losses, strict=True)]
    sections = [
        [*own, *([] if lost is None else [strata_section(lost, binary=one.binary)])]
        for one, lost, own in zip(
            found, losses,
            map(comparison_sections, found, [log.key for log in logs], leading), strict=True,
        )
    ]  # fmt: skip
    told = tuple(dict.fromkeys(note for log in logs for note in log.admission))
    admission = verdict[1] if verdict else told
    answer = _answer(options, found, sections, verdict, admission, more=more, told=told)
    if len(found) < 2:
        return answer
    words = {one.name: one.verdict for one in verdict[0].variants} if verdict else {}
    listed, document = candidates(found, words, costs), answer.document
    assert isinstance(document, Document)
    *parts, last = document.sections
    section = candidates_section(listed, binary=found[0].binary)
    document = replace(document, sections=[*parts, section, last])
    return replace(answer, document=document, content={
        **answer.content, "candidates": jsonable(listed),
    })  # fmt: skip


def compare_boxes(options: CompareOptions) -> Answer:
    """Compare detectors box by box, and judge the change.

    Raises:
        ScotomaError: Options or files that do not fit together.
    """
    _judging(options)  # what is wrong with the rules is said before hours of matching
    boxes, found = compared_boxes(options.asked(BoxQuestion))
    verdict = judge_boxes(boxes, options)
    return _answer(options, found, map(box_sections, found), verdict, boxes.admission)


def _judging(options: CompareOptions) -> Judging:
    return Judging.chosen(options.rules, options.margin, options.as_of or None)


def _answer(
    options: CompareOptions,
    found: Sequence[LogComparison | BoxComparison],
    sections: Iterable[Iterable[Section]],
    verdict: Verdict | None,
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
        "gate": verdict and plain(verdict[0]),
    }
    sentences = [] if options.quiet else list(dict.fromkeys(note.sentence for note in told))
    document = compared_document(
        [one.models for one in found], sections, _verdict_section(verdict, sentences)
    )
    notes = [f"note    {sentence}" for sentence in sentences]
    notes += [] if options.out is None else [f"report  {options.out / 'report.html'}"]
    code = verdict[0].exit_code if verdict and options.gate else 0
    return Answer(document, content, notes, code)


def _verdict_section(verdict: Verdict | None, told: Collection[str] = ()) -> Section:
    """Say what the verdict rests on, as the gate file has it, and what is not `told` already."""
    if verdict is None:
        missing = "Not judged: the score is a number; say from where on it is right, --right-from."
        return Section("verdict", "", [missing])
    gate, admission = verdict
    above = {*told}.union(*(variant.sentences for variant in gate.variants))
    lines = [f"{one.verdict:<7} {one.name}: {'; '.join(one.sentences)}." for one in gate.variants]
    lines += filter(None, [too_small(gate.variants)])
    lines += [f"note    {warning}." for warning in gate.warnings]
    asked = [one for one in admission if one.blocks_pass or one.rule != "chance"]
    lines += [f"note    {line}." for line in admission_lines(asked) if line not in above]
    if gate.scope == "shipped":
        models = these_models(len(gate.variants))
        lines.append(f"These numbers are about {models}; another training run may differ.")
    return Section("verdict", "", lines)
