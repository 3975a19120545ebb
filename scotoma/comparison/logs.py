"""From the places of logs to rows of paired answers."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from scotoma.answers.admission import unanswered_note
from scotoma.answers.groups import GroupColumn, Groups
from scotoma.answers.note import AdmissionNote
from scotoma.comparison.behaviour import said_by_either, unsaid, with_behaviour
from scotoma.comparison.bias_scores import NEEDED
from scotoma.comparison.groups import grouped, groupings, joined
from scotoma.comparison.means import score_table
from scotoma.comparison.measure import (
    LogComparison,
    Wording,
    is_lower_better,
    measure_rows,
    refusal_pattern,
    with_tasks,
    wording,
)
from scotoma.comparison.reruns import (
    ATTRIBUTE,
    BEHAVIOURS,
    SIDES,
    PairedRows,
    joined_tasks,
    paired_rows,
)
from scotoma.comparison.strata import Strata, StrataLosses, same_questions, stratum_losses
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.enough import sampling_margin
from scotoma.printable import ONE_OF_THEM, nearest, printable
from scotoma.readers.evaluation_tables import CORRECT, LogColumns
from scotoma.readers.logs import (
    attributes_of,
    matches,
    matching,
    models_in,
    patterns,
    read_logs,
)
from scotoma.readers.pairing import MOST_MISSING, Pairing, pair
from scotoma.readers.record import EvaluationLog
from scotoma.run.mirror import place_here

USUAL_SCORES = (
    "acc", "accuracy", "exact_match", "correct", "is_correct", "quasi_exact_match", "match",
    "em", "symbolic_correct", "judge_correct", "prompt_strict", "success", "score",
)  # fmt: skip
SCORES = [f"score_{side}" for side in SIDES]
ACCURACY = ("accuracy", "acc")
SHARES_OF_HARM = ("cut_off", "refused")
BESIDE = {  # behaviours that are told beside another score, one a field of logs
    "cut_off": "cut off and refused", "tool_call": "tool calls",
    "output_tokens": "tokens of output", "margin": "margins of log-likelihood",
}  # fmt: skip
LEAST_MARGIN = 0.005  # that the built-in rules pass where the original has no such answers
ERRORS = {  # what the error is where how answers ended is the score
    "not cut_off": "cut off", "not refused": "refused", "tool_call": "without a tool call",
}  # fmt: skip
RERUN_NAME = re.compile(r"([-_. ]+|[-_. ]*(run|rerun|epoch|seed))[-_. ]*\d+$", re.IGNORECASE)
TABLE_KEYS = {  # columns of --examples that name an example or its content, to those of logs
    **dict.fromkeys(("content_hash", "doc_hash", "sample_hash"), "content_hash"),
    **dict.fromkeys(("example_id", "doc_id", "id", "sample_id"), "example_id"),
}
OF_ROWS = TABLE_KEYS | {"task": "task"}  # what the logs of any tool say of an example
FAMILY = "family"  # attribute of the tasks that one pattern of --tasks names
MOST_FEATURES = 12  # attributes beside the groups that may define slices
FEATURE_VALUES = (2, 50)  # fewest and most values of one of them
LOOKED_THROUGH = (
    200_000_000  # bytes of logs up to which attributes that nobody named are looked for
)


@dataclass(frozen=True)
class CompareQuestion:
    """What is asked about logs; the fields are options of `scotoma compare`."""

    paths: tuple[str, ...]
    group: tuple[str, ...] = ()
    examples: str = ""
    score: str = ""
    right_from: float | None = None
    filter_: str = ""
    tasks: tuple[str, ...] = ()
    reruns: bool = False
    identifier: str = ""
    label: str = ""
    predicted: tuple[str, ...] = ()
    refusal: tuple[str, ...] = ()
    allow_different_prompts: bool = False
    allow_missing: bool = False
    pair_by: str = ""
    across: str = ""
    reference: str = ""
    margin: float | None = None

    @property
    def groups(self) -> dict[str, GroupColumn]:
        """The groups that are asked for; strata are groups, too."""
        return groupings([*self.group, self.across])

    @property
    def strata(self) -> Strata | None:
        """The strata that are compared on the same questions; None where none are asked for.

        Raises:
            ConfigError: One of their options without the other, or several attributes.
        """
        if not (self.pair_by or self.across or self.reference):
            return None
        rules = list(groupings([self.across]).values())
        if not self.pair_by or len(rules) != 1:
            raise ConfigError(
                "strata need --pair-by, which names the question, and --across, one attribute "
                f"whose values are compared, got {printable(self.pair_by) or 'no question'} and "
                f"{printable(self.across) or 'no attribute'}; name both"
            )
        name = next(name for name, rule in self.groups.items() if rule == rules[0])
        return Strata(name, self.pair_by, self.reference)

    @property
    def columns(self) -> LogColumns:
        """Which columns of tables say what."""
        if len(self.predicted) > 1:
            raise ConfigError(
                f"--predicted names one column in tables of one model each, got "
                f"{', '.join(self.predicted)}; name one, or give one table alone"
            )
        return LogColumns(
            example_id=self.identifier, label=self.label, answer="".join(self.predicted)
        )


@dataclass(frozen=True)
class Model:
    """A model and where its logs lie.

    Attributes:
        name: As the user's path names it.
        places: Logs; several are reruns.
        called: As a file of several models calls it; empty where it is alone.
    """

    name: str
    places: tuple[Path, ...]
    called: str = ""


@dataclass(frozen=True)
class ComparedLogs:
    """Two models' answers, ready to be measured.

    Attributes:
        models: Their names.
        rows: Their answers.
        metric: The score.
        key: By what examples were paired.
        groups: Of every row.
        wording: Of free text; None elsewhere.
        logs: Of the two models, the first task's.
        admission: What was left out, guessed or not checked.
        strata: That are compared on the same questions, which are then the clusters; or None.
        original: The original beside itself: all that its log holds; None unless asked for.
        awaited: Tasks that are named, and that its log does not hold yet.
    """

    models: tuple[str, str]
    rows: PairedRows
    metric: str
    key: str
    groups: Groups
    wording: Wording | None
    logs: tuple[Mapping[str, EvaluationLog], Mapping[str, EvaluationLog]]
    admission: tuple[AdmissionNote, ...]
    strata: Strata | None = None
    original: ComparedLogs | None = None
    awaited: tuple[str, ...] = ()


def models_of(paths: Sequence[str], *, reruns: bool = False) -> list[Model]:
    """Which places belong to which model, the original first.

    Args:
        paths: Here or in `s3://`, whose copies are named.
        reruns: Whether places of one folder, or of one name, are of one model.

    Raises:
        ConfigError: Fewer than two models.

    >>> models = models_of(["a/r1.csv", "a/r2.csv", "b/r1.csv"], reruns=True)
    >>> [(model.name, len(model.places)) for model in models]
    [('a', 2), ('b', 1)]
    >>> models = models_of(["bf16", "bf16-2", "w4a16"], reruns=True)
    >>> [(model.name, len(model.places)) for model in models]
    [('bf16', 2), ('w4a16', 1)]
    """
    places = tuple(map(place_here, paths))
    if not reruns or len(places) == 2:
        models = [Model(_name(place), (place,)) for place in places]
    else:
        by_folder = len({place.parent for place in places}) > 1
        found: dict[str, list[Path]] = {}
        for place in places:
            own = str(place.parent) if by_folder else RERUN_NAME.sub("", _name(place))
            found.setdefault(own, []).append(place)
        models = [Model(_name(Path(own)), tuple(paths)) for own, paths in found.items()]
    if len(models) == 1 and len(within := models_in(models[0].places[0])) > 1:
        models = [Model(_in_signs(name), models[0].places, name) for name in within]
    if len(models) < 2:
        raise ConfigError(
            f"compare needs the logs of an original and a compressed model, got {len(models)} "
            f"model{'' if len(models) == 1 else 's'}; name the original first, then the compressed"
        )
    names = [model.name for model in models]
    folders = [[*Path(os.path.abspath(model.places[0])).parents] for model in models]
    for level in zip(*folders, strict=False):  # the nearest folders that tell them apart
        if len(set(names)) < len(names):
            names = [_name(folder) for folder in level]
    if len(set(names)) < len(names):  # one file, named twice
        names = [f"{model.name} ({number})" for number, model in enumerate(models, 1)]
    return [replace(model, name=name) for model, name in zip(models, names, strict=True)]


def measured(one: ComparedLogs) -> LogComparison:
    """Every number of two models."""
    return measure_rows(
        one.rows, models=one.models, metric=one.metric,
        masks={key: mask for key, mask in one.groups.by_key.items() if key != "all"},
        wording=one.wording,
    )  # fmt: skip


def measured_strata(one: ComparedLogs) -> StrataLosses | None:
    """The loss of every stratum beside that of the reference; None where none are asked for."""
    if one.strata is None:
        return None
    table = one.rows.table
    return stratum_losses(
        score_table(table["score_before"], table["score_after"], one.rows.clusters),
        one.groups.values[one.strata.attribute], one.strata,
        lower_is_better=is_lower_better(one.metric),
    )  # fmt: skip


def _name(place: Path) -> str:
    """Name a model by its file or folder, in signs that a variant may have."""
    stem = place.resolve().name if place.name in ("", ".", "..") else place.name
    for suffix in (".gz", ".csv", ".parquet", ".jsonl", ".json", ".eval"):
        stem = stem.removesuffix(suffix)
    return _in_signs(stem)


def _in_signs(name: str) -> str:
    return re.sub(r"^\W+|[^\w .,+=@()-]", "-", name).strip("-")[:60] or "model"


@contextmanager
def compared(
    question: CompareQuestion, models: Sequence[Model], *, going_on: bool = False
) -> Iterator[list[ComparedLogs]]:
    """Read, pair and join; the texts of the logs are there as long as the context is open.

    Args:
        question: What is asked.
        models: The original first.
        going_on: Whether answers are still to come: what the original's log holds is kept whole.

    Raises:
        ScotomaError: Logs that cannot be read or compared, or attributes that they do not hold.
    """
    question, asked, attributes = _attributes(question, models)
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        logs = []
        for place, model in enumerate(models):
            own = Path(folder, str(place))
            own.mkdir()
            log = read_logs(
                model.places, own, attributes=attributes, filter=question.filter_,
                tasks=question.tasks, reruns=question.reruns, columns=question.columns,
                model=model.called, going_on=going_on,
            )  # fmt: skip
            logs.append({task: with_behaviour(own) for task, own in log.items()})
        wanted, pairs = patterns(question.tasks, logs[0]), []
        for model, log in zip(models[1:], logs[1:], strict=True):
            begun = [one for one in wanted if not going_on or matches(one, [*{*log} & {*logs[0]}])]
            about = replace(question, tasks=tuple(begun))
            both = logs[0]
            if going_on:  # tasks that have not begun are told by who judges so far
                both = {task: one for task, one in logs[0].items() if task in log} or both
            one = _compared(about, (models[0], model), (both, log), asked)
            if going_on and not any(note.blocks_pass for note in one.admission):
                kept = {
                    task: replace(before, scores=tuple(
                        _shared_scores(before, log.get(task, before), question.score)
                    ))
                    for task, before in logs[0].items()
                    if task in one.logs[0] or task not in log
                }  # fmt: skip
                begun = [one for one in wanted if matches(one, kept)]
                about = replace(question, tasks=tuple(begun))
                original = _compared(about, (models[0], models[0]), (kept, kept), asked)
                awaited = tuple(one for one in wanted if one not in begun)
                one = replace(one, original=original, awaited=awaited)
            pairs.append(one)
        yield pairs


def _attributes(
    question: CompareQuestion, models: Sequence[Model]
) -> tuple[CompareQuestion, Mapping[str, GroupColumn], list[str]]:
    """Groups and questions by their whole paths, and what to read: these, and what forms slices."""
    asked, by = question.groups, question.pair_by
    if question.examples:
        return question, asked, []
    named = [*(rule.column for rule in asked.values()), *filter(None, [by])]
    places = models[0].places
    size = sum(
        path.stat().st_size
        for place in places
        for path in ([place] if place.is_file() else place.rglob("*"))
        if path.is_file()
    )
    if size > LOOKED_THROUGH:
        return question, asked, [name for name in named if name not in OF_ROWS]
    known = {
        one.path: one
        for paths in attributes_of(places[:1], columns=question.columns).values()
        for one in paths
    }

    def whole(path: str, option: str) -> str:
        ends = [other for other in known if other.rpartition(".")[2] == path]
        if path in known or len(ends) == 1:
            return path if path in known else ends[0]
        if path in OF_ROWS:
            return OF_ROWS[path]
        raise ConfigError(
            f"{option} names {printable(path)!r}, which the logs of {models[0].name} do not "
            f"hold{nearest(path, list(known))}; list what they hold with --list"
        )

    found = {
        name: rule.model_copy(update={
            "column": whole(
                rule.column, "--across" if question.across.startswith(rule.column) else "--group"
            )
        })
        for name, rule in asked.items()
    }  # fmt: skip
    if by:
        path = whole(by, "--pair-by")
        by = path if path in known else by  # what every row has keeps the user's word for it
    named = [name for name in (*(rule.column for rule in found.values()), by) if name in known]
    low, high = FEATURE_VALUES
    more = [
        path
        for path, one in known.items()
        if (low <= one.values <= high) or (one.kind == "numbers" and one.values > high)
    ]
    needed = [path for path in known if path.rpartition(".")[2] in NEEDED]
    attributes = list(dict.fromkeys([*named, *needed, *more[:MOST_FEATURES]]))
    return replace(question, pair_by=by), found, attributes


class _Task(NamedTuple):
    """What two models answer of one task."""

    task: str
    metric: str
    key: str
    rows: PairedRows
    binary: bool


def _compared(
    question: CompareQuestion,
    models: tuple[Model, Model],
    logs: tuple[Mapping[str, EvaluationLog], Mapping[str, EvaluationLog]],
    asked: Mapping[str, GroupColumn],
) -> ComparedLogs:
    if question.score in BEHAVIOURS:
        logs = said_by_either(question.score, logs)
    before, after = logs
    tasks, notes = _scored(question, _tasks(question, models, logs), logs)
    parts: list[_Task] = []
    ends: list[AdmissionNote] = []
    same = [  # whether both were asked the same
        f"task {task} is in the log of {models[1].name} only, and is left out"
        for task in after
        if task not in before
    ]
    ends += [
        AdmissionNote(
            rule="same_examples", subject=models[1].name, variant=models[1].name, blocks_pass=True,
            sentence=f"task {task} is not in the log of {models[1].name}, and no PASS is given: "
            "evaluate it, or name with --tasks which to judge",
        )
        for task in before
        if task not in after
    ]  # fmt: skip
    for task in tasks:
        metric = _metric(question, before[task], after[task])
        paired = pair(
            before[task], after[task], allow_different_prompts=question.allow_different_prompts,
            allow_missing=question.allow_missing,
        )  # fmt: skip
        known = _ends(question, paired, task, metric, [model.name for model in models])
        own = paired_rows(paired, metric, task=task, attributes=before[task].attributes)
        if metric in SHARES_OF_HARM:  # a right answer is one that is not
            own = replace(own, table=own.table.with_columns(pl.col(SCORES).neg() + 1))
            metric = f"not {metric}"
        if (least := question.right_from) is not None:
            right = (pl.col(SCORES) >= least).cast(pl.Float64)
            own = replace(own, table=own.table.with_columns(right))
        binary = all(own.table.select(pl.col(SCORES).is_in([0.0, 1.0]).all()).row(0))
        parts.append(_Task(task, metric, paired.key, own, binary))
        same += [*paired.notes, *(f"not asked the same: {one}" for one in paired.differences)]
        for name, only in zip(models, (paired.only_baseline, paired.only_compressed), strict=True):
            if only:
                same.append(
                    f"{task}: {len(only):,} examples are in the log of {name.name} only, the first "
                    f"is {printable(only[0])[:40]!r}; they are left out"
                )
        notes += [*before[task].notes, *after[task].notes]
        ends += known
    keys, some_right = dict.fromkeys(one.key for one in parts), any(one.binary for one in parts)
    if some_right and len({one.metric for one in parts}) > 1:
        notes += [
            f"task {one.task} has the score {one.metric}, a number, and is left out beside answers "
            f"that are right or wrong; compare it with --tasks {one.task}"
            for one in parts
            if not one.binary
        ]
        parts = [one for one in parts if one.binary]
    tasks = [one.task for one in parts]
    rows = joined_tasks([one.rows for one in parts])
    kinds = list(dict.fromkeys(one.metric for one in parts))
    if len(kinds) > 1 and not some_right:
        raise ConfigError(
            f"tasks whose scores are numbers must share one to be taken together, got "
            f"{', '.join(kinds[:5])}; choose one with --score, or tasks with --tasks"
        )
    notes += rows.notes
    notes += [f"error is the share of answers {ERRORS[one]}" for one in kinds if one in ERRORS]
    if rows.unscored and question.score not in BEHAVIOURS:  # whose sides are told
        many = "example has" if rows.unscored == 1 else "examples have"
        notes.append(f"left out: {rows.unscored:,} {many} no score of both models")
    admission = [_note("same_examples", one, models[1].name) for one in same]
    admission += [_note("reading", one, models[1].name) for one in notes] + ends
    for model, side in zip(models, SIDES, strict=True):
        silent = rows.table.group_by("example").agg(pl.col(f"unanswered_{side}").any())
        missing = silent[f"unanswered_{side}"].to_numpy()[:, None]
        admission += unanswered_note(missing, model.name, variant=model.name)
    groups, questions = _groups(question, rows, asked)
    admission += _ends_of_groups(question, rows, asked, models[1].name)
    if (strata := question.strata) is not None:
        rows, kept, strata, told = same_questions(
            rows, questions, groups.values.get(strata.attribute), strata,
            allow_missing=question.allow_missing,
        )  # fmt: skip
        values = {name: own.filter(kept) for name, own in groups.values.items()}
        groups = replace(groups, values=values, size=rows.table.height)
        admission += [_note("same_examples", one, models[1].name) for one in told]
    admission += [_note("reading", one, "groups") for one in groups.notes]
    texts = _wording(question, rows, logs, tasks)
    names, metric = (models[0].name, models[1].name), " and ".join(kinds[:3])
    return ComparedLogs(
        names, rows, metric, " and ".join(keys),
        groups, texts,
        ({task: before[task] for task in tasks}, {task: after[task] for task in tasks}),
        tuple(dict.fromkeys(admission)), strata,
    )  # fmt: skip


def _ends(
    question: CompareQuestion, paired: Pairing, task: str, metric: str, models: Sequence[str]
) -> list[AdmissionNote]:
    """Tell of how many examples it is not known how their answers ended.

    Where that is the question they are missing examples: above 1% they are refused, or left out. No
    PASS is given where so many are left out that they may hide a rise beyond the margin.

    Raises:
        DataError: Too many, and they are not allowed to be missing.
    """
    notes = []
    asked = metric in BEHAVIOURS
    for name in [metric] if asked else BESIDE:
        found = unsaid(paired, name, models)
        if found is None or not (asked or found.happens):
            continue
        many = asked and found.share > min(MOST_MISSING, question.margin or LEAST_MARGIN)
        if found.share > MOST_MISSING and asked and not question.allow_missing:
            raise DataError(
                f"{task}: --score {name} needs logs that say it of every example, but "
                f"{' and '.join(found.sentences)}; evaluate again and log it, or pass "
                "--allow-missing, which leaves them out and gives no PASS"
            )
        end = "they are left out" + (", and no PASS is given" if many else "")
        if not asked:
            end = f"{BESIDE[name]} {'are not compared' if found.whole else 'leave them out'}"
        notes += [
            AdmissionNote(
                rule="same_examples" if asked else "reading", subject=models[1],
                sentence=f"{task}: {one}; {end}", variant=models[1] if many else "",
                blocks_pass=many,
            )
            for one in found.sentences
        ]  # fmt: skip
    return notes


def _ends_of_groups(
    question: CompareQuestion, rows: PairedRows, asked: Mapping[str, GroupColumn], name: str
) -> Iterator[AdmissionNote]:
    """Give no PASS where a group lacks more endings than its PASS lets rise."""
    if not rows.left_out.height:
        return
    table = pl.concat([rows.table, rows.left_out], how="diagonal_relaxed")
    groups, _ = _groups(question, replace(rows, table=table), asked)
    ids = pl.struct("task", "position")
    for key, mask in with_tasks(groups.by_key, table).items():
        sizes = [own.filter(pl.Series(inside)).select(ids.n_unique()).item() for own, inside in (
            (table, mask), (rows.left_out, mask[rows.table.height :]),
        )]  # fmt: skip
        least = min(MOST_MISSING, question.margin or LEAST_MARGIN)
        if key != "all" and sizes[1] > sizes[0] * max(least, sampling_margin(0.0, sizes[0])):
            yield AdmissionNote(
                rule="same_examples", subject=name, variant=name, blocks_pass=True,
                sentence=f"{key}: of {sizes[1]:,} of {sizes[0]:,} examples it is not known how "
                "answers ended; they are left out, and no PASS is given",
            )  # fmt: skip


def _note(rule: Literal["same_examples", "reading"], sentence: str, subject: str) -> AdmissionNote:
    return AdmissionNote(rule=rule, subject=subject, sentence=sentence.removesuffix("."))


def _tasks(
    question: CompareQuestion,
    models: tuple[Model, Model],
    logs: tuple[Mapping[str, EvaluationLog], Mapping[str, EvaluationLog]],
) -> list[str]:
    common = [task for task in logs[0] if task in logs[1]]
    named = matching(question.tasks, common)
    for task in named:
        if task not in common:
            raise ConfigError(
                f"--tasks names {printable(task)!r}, which is not in both logs, which share "
                f"{', '.join(common) or 'none'}{nearest(task, common, ONE_OF_THEM)}"
            )
    if not common:
        raise DataError(
            f"logs of {models[0].name} and {models[1].name} must share a task, got "
            f"{', '.join(logs[0])} and {', '.join(logs[1])}; name logs of the same evaluation"
        )
    return named or common


def _shared_scores(before: EvaluationLog, after: EvaluationLog, wanted: str) -> list[str]:
    """Scores of both; how answers ended counts among them only where it is asked for."""
    own = [name for name in before.scores if name == wanted or name not in BEHAVIOURS]
    return [name for name in own if name in after.scores]


def _metric(question: CompareQuestion, before: EvaluationLog, after: EvaluationLog) -> str:
    common = _shared_scores(before, after, question.score)
    if not common:
        known = [", ".join(_shared_scores(own, own, "")) or "none" for own in (before, after)]
        left_out = ", and is left out."
        notes = [note for note in (*before.notes, *after.notes) if note.endswith(left_out)]
        why = f"; {notes[0].removesuffix(left_out)}" if notes else ""
        raise DataError(
            f"logs of task {printable(before.task)} must share a score, got "
            f"{' and '.join(known)}{why}; correct the log, or name logs of one evaluation"
        )
    if question.score:
        score = _called(question.score, common)
        if score in BEHAVIOURS and score not in common:
            raise ConfigError(
                f"--score {score} needs logs that say how each answer ended, and those of "
                f"{before.task} do not; evaluate with a tool that logs stop reasons"
            )
        if score not in common:
            raise ConfigError(
                f"--score {printable(question.score)!r} is not in both logs of {before.task}, "
                f"which share {', '.join(common)}{nearest(question.score, common, ONE_OF_THEM)}"
            )
        return score
    return next((name for name in USUAL_SCORES if name in common), common[0])


def _called(score: str, known: Sequence[str]) -> str:
    """What logs call a score; accuracy is what `correct` of a table averages to."""
    return CORRECT if score in ACCURACY and score not in known else score


def _scored(
    question: CompareQuestion,
    tasks: Sequence[str],
    logs: tuple[Mapping[str, EvaluationLog], Mapping[str, EvaluationLog]],
) -> tuple[list[str], list[str]]:
    """The tasks with a score of both models, and a note on each other one, unless it was named."""
    if list(tasks) == [*question.tasks] or len(tasks) == 1:
        return list(tasks), []
    wanted = question.score

    def has_score(task: str) -> bool:
        common = _shared_scores(logs[0][task], logs[1][task], wanted)
        return _called(wanted, common) in common if wanted else bool(common)

    scored = [task for task in tasks if has_score(task)]
    what = f"score {wanted}" if wanted else "score that is a number"
    notes = [f"task {task} has no {what} and is left out" for task in tasks if task not in scored]
    return (scored, notes) if scored else (list(tasks), [])


def _groups(
    question: CompareQuestion, rows: PairedRows, asked: Mapping[str, GroupColumn]
) -> tuple[Groups, pl.Series]:
    """Form the groups of every row, and say what question it asks, where strata are compared."""
    table = rows.table
    source = table.rename({f"{ATTRIBUTE}{name}": name for name in rows.attributes}, strict=False)
    if question.examples:
        ids = table.select("content_hash", "example_id", "task")
        keys = {name: [own] for name, own in TABLE_KEYS.items()}
        source = joined(question.examples, ids, keys, "examples of the logs")
        if not asked:
            columns = [name for name in source.columns if name not in ids.columns]
            asked = {name: GroupColumn(column=name) for name in columns}
    if not {*question.tasks} <= {*table["task"]}:  # patterns, whose tasks are a family
        names = [next((one for one in question.tasks if fnmatchcase(task, one)), task)
                 for task in table["task"]]  # fmt: skip
        source = source.with_columns(pl.Series(FAMILY, names))
        asked = {**asked, FAMILY: GroupColumn(column=FAMILY)}
    by = question.pair_by
    by = by if by in source.columns else OF_ROWS.get(by, by)
    if by and by not in source.columns:
        raise ConfigError(
            f"--pair-by names {printable(by)!r}, which is not among "
            f"{printable(', '.join(source.columns))[:300]}; name one of these"
        )
    return grouped(source, asked), source[by or "example_id"]


def _wording(
    question: CompareQuestion,
    rows: PairedRows,
    logs: tuple[Mapping[str, EvaluationLog], Mapping[str, EvaluationLog]],
    tasks: Sequence[str],
) -> Wording | None:
    """Compare free text; None where models only chose among options."""
    table = rows.table
    free = pl.all_horizontal(
        pl.col(f"text_hash_{side}").is_not_null() & pl.col(f"choice_{side}").is_null()
        for side in SIDES
    )
    written = table.filter(free)
    pattern = refusal_pattern(question.refusal)
    if not written.height:
        return None
    sides = []
    for side, of_model in zip(SIDES, logs, strict=True):
        refused = pl.concat(_refused(of_model[task], pattern, task) for task in tasks)
        on = [f"row_{side}", "task"]
        found = written.select(on).join(
            refused, left_on=on, right_on=["row", "task"], how="left", maintain_order="left"
        )
        sides.append(found["refused"].fill_null(False))
    example = written["example"].rank("dense").to_numpy().astype(np.int64) - 1
    return wording(written, (sides[0], sides[1]), example)


def _refused(log: EvaluationLog, pattern: str, task: str) -> pl.DataFrame:
    """Whether each text refuses; the texts stay on disk."""
    text = pl.coalesce("text", "answer").fill_null("")
    refused = text.str.contains(pattern)
    return log.scan_texts().select("row", refused=refused, task=pl.lit(task)).collect()
