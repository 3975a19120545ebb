"""From compared logs to an audit of predictions: tables, a configuration, a verdict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from scotoma.answers.admission import is_label
from scotoma.answers.note import AdmissionNote
from scotoma.answers.pair import Pair
from scotoma.audit import read_audit, read_gate
from scotoma.commands.compare.answers import RIGHT, answered_names, are_outcomes
from scotoma.commands.compare.logs import ComparedLogs
from scotoma.comparison.rows import SIDES
from scotoma.config import Config, load_config
from scotoma.config.gate import GateRules, parse_rules
from scotoma.config.gate_changes import SlicesRule
from scotoma.config.gate_levels import LevelRule
from scotoma.detection.table import FOUND
from scotoma.errors import ConfigError, DataError
from scotoma.natural import natural_order
from scotoma.run import Run
from scotoma.run.folder import INPUTS
from scotoma.stages.bias import bias
from scotoma.stages.divergence import divergence
from scotoma.stages.external.predictions import complete
from scotoma.stages.inputs.texts import texts_file, write_compared_notes
from scotoma.stages.judging.terms import Judging
from scotoma.stages.prepare import prepare
from scotoma.stages.slices import slices
from scotoma.stages.verdict import verdict

__all__ = [
    "ComparedVerdict",
    "audit_tables",
    "judge_compared",
    "judge_tables",
    "write_audit",
]

MOST_TEXTS = 5_000  # examples of a variant whose texts are kept for the page
RULES = """\
rules:
  - id: error_all
    metric: error
    over: all
    max_increase: {relative: 0.2, absolute: 0.005}
"""
UNANSWERED = """\
  - id: unanswered
    metric: unanswered
    over: {over}
    max_increase: {{relative: 0.2, absolute: 0.005}}
"""
GROUP_RULES = """\
  - id: error_groups
    metric: error
    over: groups
    max_increase: {relative: 0.2, absolute: 0.005}
"""


@dataclass(frozen=True)
class ComparedVerdict:
    """A verdict on compared logs.

    Attributes:
        content: gate.json.
        exit_code: 0 pass, 1 fail, 3 unsure where the rules say that this fails.
        admission: What its audit says of the answers.
    """

    content: str
    exit_code: int
    admission: tuple[AdmissionNote, ...] = ()


def judge_compared(
    compared: Sequence[ComparedLogs],
    pairs: Sequence[Pair],
    out: Path | None,
    judging: Judging,
    *,
    positive: str,
    tracking: str,
    quiet: bool,
) -> ComparedVerdict:
    """Judge compared logs by an audit of predictions.

    Args:
        compared: The original and each compressed model.
        pairs: Their answers, from `admitted`.
        out: Folder of the run, whose inputs lie in `compared/`; None to leave no audit behind.
        judging: Rules and day.
        positive: The answer that is the favourable outcome; empty for none.
        tracking: MLflow's server or database; empty to log nowhere.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: What an audit of these answers refuses.
    """

    def write(folder: Path) -> Path:
        path = _write(compared, pairs, folder, tracking=tracking, positive=positive)
        notes = dict.fromkeys(note for pair in pairs for note in pair.notes)
        # The audit counts answers that are missing itself.
        write_compared_notes(folder, [note for note in notes if note.rule != "unanswered"])
        if out is not None:
            _write_texts(compared, folder)
        return path

    if out is None:
        return judge_tables(write, judging)
    return audit_tables(write, out, judging, quiet=quiet)


def judge_tables(write: Callable[[Path], Path], judging: Judging) -> ComparedVerdict:
    """Judge tables of examples and predictions without leaving an audit behind.

    Nobody will read its numbers, so that only those are measured which a rule asks for.

    Args:
        write: Writes the tables into a folder, and returns the configuration of their audit.
        judging: Rules and day.
    """
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        path = write(Path(folder, "run", INPUTS))
        run = Run.create(Path(folder, "run"), complete(load_config(path)))
        rules = judging.rules or _rules(run.config)
        Judging(rules, judging.as_of).leave(run)
        asked = () if rules is None else rules.rules  # the default rules ask for none of these
        levels = {rule.metric.partition(".")[0] for rule in asked if isinstance(rule, LevelRule)}
        prepare(run)
        divergence(run)
        bias(run, clarify="clarify" in levels, run_to_run="fairness" in levels)
        slices(run, search=any(isinstance(rule, SlicesRule) for rule in asked))
        verdict(run)
        return _verdict(run.path("gate.json"))


def audit_tables(
    write: Callable[[Path], Path], out: Path, judging: Judging, *, quiet: bool
) -> ComparedVerdict:
    """Audit tables of examples and predictions, in a folder with all that an audit leaves.

    What is refused leaves no folder that was not there before.

    Args:
        write: As for `judge_tables`.
        out: Folder of the run; what it reads lies in `compared/`.
        judging: Rules and day.
        quiet: Write nothing to stderr.
    """
    from scotoma.commands.audit.run import run_configured

    if out.is_dir() and any(out.iterdir()) and not (out / INPUTS).is_dir():
        raise ConfigError(f"output folder {out} holds other files; choose another --out")
    begun = (out / INPUTS).is_dir()
    try:
        config = load_config(write(out / INPUTS))
        rules = judging.rules or _rules(config)
        run_configured(
            complete(config), str(out), Judging(rules, judging.as_of), None,
            as_json=False, quiet=quiet, step=None, silent=True,
        )  # fmt: skip
    except (ConfigError, DataError):
        if not begun:
            shutil.rmtree(out, ignore_errors=True)
        raise
    return _verdict(out / "gate.json")


def _verdict(path: Path) -> ComparedVerdict:
    gate = read_gate(path)
    audit = read_audit(path.with_name("audit.json"))
    return ComparedVerdict(path.read_text(encoding="utf-8"), gate.exit_code, audit.admission)


def _rules(config: Config) -> GateRules | None:
    """Rules for right and wrong, found and missed; an audit's own where answers are classes."""
    if not {RIGHT, FOUND} & set(getattr(config.source, "classes", ())):
        return None
    text = RULES + (GROUP_RULES if config.groups.attributes else "")
    path = Path(str(getattr(config.source, "files", "")))
    predicted = pl.scan_parquet(path, glob=False) if path.suffix == ".parquet" else None
    if predicted is not None and path.is_file():
        count = predicted.select(pl.col("predicted").null_count()).collect().item()
        over = "groups" if config.groups.attributes else "all"
        text += UNANSWERED.format(over=over) if count else ""
    return parse_rules(text, "the rules")


def _write(
    compared: Sequence[ComparedLogs],
    pairs: Sequence[Pair],
    folder: Path,
    *,
    tracking: str,
    positive: str,
) -> Path:
    """Write the tables and the configuration of an audit; see `judge_compared`.

    Returns:
        The configuration.
    """
    first, groups = pairs[0], pairs[0].examples.groups.values
    tables = [
        one.rows.table.with_columns(
            pl.concat_str("task", pl.lit("/"), "example_id").alias("id"),
            answered_names(pair, pair.labels).alias("label"),
            *(own.alias(f"group {name}") for name, own in pair.examples.groups.values.items()),
            *(
                answered_names(pair, own.predicted[:, 0]).alias(side)
                for side, own in zip(SIDES, (pair.dense, pair.compressed), strict=True)
                if own is not None
            ),
        )
        for one, pair in zip(compared, pairs, strict=True)
    ]
    common = tables[0].select("id").unique(maintain_order=True)
    for table in tables[1:]:
        common = common.join(table.select("id").unique(), on="id", maintain_order="left")
    examples = (
        tables[0]
        .join(common, on="id", maintain_order="left")
        .unique("id", keep="first", maintain_order=True)
    )
    lengths = {"prompt length": "prompt_length", "prompt script": "prompt_script"}
    features = [name for name, own in lengths.items() if examples[own].n_unique() > 1]
    tasks = [] if examples["task"].n_unique() < 2 or "task" in groups else ["task"]
    sides = [(compared[0].models[0], "before", tables[0])]
    sides += [(one.models[1], "after", table) for one, table in zip(compared, tables, strict=True)]
    answers = [
        table.join(common, on="id")
        .select(
            example_id=pl.col("id"), variant=pl.lit(name), model=pl.lit("0"),
            rerun=pl.col(f"rerun_{side}").cast(pl.String), predicted=pl.col(side),
        )
        .unique(["example_id", "rerun"], keep="first", maintain_order=True)
        for name, side, table in sides
    ]  # fmt: skip
    classes = dict.fromkeys(name for pair in pairs for name in pair.classes if is_label(name))
    return write_audit(
        folder,
        examples.select(
            pl.col("id").alias("example_id"), "label", "position",
            pl.col("prompt_length").alias("prompt length"),
            pl.col("prompt_script").fill_null("(missing)").alias("prompt script"),
            *(pl.col(f"group {name}") for name in groups),
            *(pl.col(name).alias(f"group {name}") for name in tasks),
        ),
        pl.concat(answers),
        list(classes) if are_outcomes(first) else natural_order(classes),
        groups=[*groups, *tasks], features=[*features, "position"],
        baseline=compared[0].models[0],
        label={"column": "label"} | ({"positive": positive} if positive else {}),
        tracking={"uri": tracking or "off"},
    )  # fmt: skip


def write_audit(
    folder: Path,
    examples: pl.DataFrame,
    predictions: pl.DataFrame,
    classes: Sequence[str],
    *,
    groups: Sequence[str],
    features: Sequence[str],
    **more: Any,
) -> Path:
    """Write the tables and the configuration of an audit of predictions.

    Args:
        folder: For the files; it is made.
        examples: `example_id`, `label`, `group NAME` for each group, and features.
        predictions: `example_id`, `variant`, `model` and `predicted`.
        classes: Names of the classes.
        groups: Attributes; each value is a group.
        features: Columns that may define slices beside them.
        **more: Other keys of the configuration.

    Returns:
        The configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    examples.write_parquet(folder / "examples.parquet")
    predictions.write_parquet(folder / "predictions.parquet")
    config = {
        "version": 1,
        "project": "compare",
        "source": {
            "kind": "predictions",
            "files": str((folder / "predictions.parquet").absolute()),
            "examples": str((folder / "examples.parquet").absolute()),
            "classes": [*classes],
        },
        "label": {"column": "label"},
        "groups": {name: {"column": f"group {name}", "bins": "each"} for name in groups},
        "slices": {"features": [*groups, *features]},
        "tracking": {"uri": "off"},
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
