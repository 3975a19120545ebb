"""From compared logs to an audit of predictions: tables, a configuration, a verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml

from scotoma.answers.note import AdmissionNote
from scotoma.audit import read_audit, read_gate
from scotoma.commands.compare.logs import ComparedLogs
from scotoma.config import Config, load_config
from scotoma.config.gate import GateRules, parse_rules
from scotoma.config.gate_changes import SlicesRule
from scotoma.config.gate_levels import LevelRule
from scotoma.detection.table import FOUND
from scotoma.errors import ConfigError
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
    "audit_of",
    "audit_tables",
    "classes_of",
    "judge_apart",
    "judge_tables",
]

RIGHT, WRONG, OTHER = "right", "wrong", "wrong, another answer"
MOST_TEXTS = 5_000  # examples of a variant whose texts are kept for the page
MOST_CLASSES = 100  # of tables whose answers are class names
MEAN_SIZE = 5  # examples of a class; of fewer, answers are free rather than classes
TABLES = ("table", "timm", "mlflow")  # formats whose answers may be names of classes
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


def judge_apart(
    pairs: Sequence[ComparedLogs], judging: Judging, *, positive: str = ""
) -> ComparedVerdict:
    """Judge without leaving an audit behind.

    Args:
        pairs: Of the original and each compressed model, in binary scores.
        judging: Rules and day.
        positive: The answer that is the favourable outcome; empty for none.

    Raises:
        ScotomaError: What an audit of these answers refuses.
    """
    return judge_tables(lambda folder: _write(pairs, folder, positive=positive), judging)


def audit_of(
    pairs: Sequence[ComparedLogs],
    out: Path,
    judging: Judging,
    *,
    tracking: str,
    quiet: bool,
    positive: str = "",
) -> ComparedVerdict:
    """Audit compared logs as predictions, in a folder with all that an audit leaves.

    Args:
        pairs: As for `judge_apart`.
        out: Folder of the run; what it reads lies in `compared/`.
        judging: Rules and day.
        tracking: MLflow's server or database; empty to log nowhere.
        quiet: Write nothing to stderr.
        positive: As for `judge_apart`.

    Raises:
        ScotomaError: What an audit of these answers refuses.
    """

    def write(folder: Path) -> Path:
        path = _write(pairs, folder, tracking=tracking, positive=positive)
        _write_texts(pairs, folder)
        notes = dict.fromkeys(note for one in pairs for note in one.admission)
        # The audit counts answers that are missing itself.
        write_compared_notes(folder, [note for note in notes if note.rule != "unanswered"])
        return path

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

    Args:
        write: As for `judge_tables`.
        out: Folder of the run; what it reads lies in `compared/`.
        judging: Rules and day.
        quiet: Write nothing to stderr.
    """
    from scotoma.commands.audit.run import run_configured

    if out.is_dir() and any(out.iterdir()) and not (out / INPUTS).is_dir():
        raise ConfigError(f"output folder {out} holds other files; choose another --out")
    config = load_config(write(out / INPUTS))
    rules = judging.rules or _rules(config)
    run_configured(
        complete(config), str(out), Judging(rules, judging.as_of), None,
        as_json=False, quiet=quiet, step=None, silent=True,
    )  # fmt: skip
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
    pairs: Sequence[ComparedLogs], folder: Path, *, tracking: str = "", positive: str = ""
) -> Path:
    """Write the tables and the configuration of an audit.

    Args:
        pairs: As for `judge_apart`.
        folder: For the files.
        tracking: As for `audit_of`.
        positive: As for `judge_apart`.

    Returns:
        The configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first = pairs[0]
    classes = classes_of(pairs)
    ids = pl.concat_str("task", pl.lit("/"), "example_id").alias("id")
    tables = [
        one.rows.table.with_columns(
            ids, *(values.alias(f"group {name}") for name, values in one.values.items())
        )
        for one in pairs
    ]
    common = tables[0].select("id").unique(maintain_order=True)
    for table in tables[1:]:
        common = common.join(table.select("id").unique(), on="id", maintain_order="left")
    attributes = [name for name, values in first.values.items() if values.n_unique() > 1]
    examples = (
        tables[0]
        .join(common, on="id", maintain_order="left")
        .unique("id", keep="first", maintain_order=True)
    )
    columns = {
        "example_id": pl.col("id"),
        "label": pl.col("target") if classes else pl.lit(RIGHT),
        "prompt length": pl.col("prompt_length"),
        "prompt script": pl.col("prompt_script").fill_null("(missing)"),
        "position": pl.col("position"),
        **({"task": pl.col("task")} if examples["task"].n_unique() > 1 else {}),
        **{name: pl.col(f"group {name}") for name in attributes},
    }
    examples.select(**columns).write_parquet(folder / "examples.parquet")
    sides = [(first.models[0], "before", tables[0])]
    sides += [(one.models[1], "after", table) for one, table in zip(pairs, tables, strict=True)]
    # A cell of a table that is empty is no answer; logs of tools may keep answers to themselves.
    silent = all(
        log.format in TABLES for one in pairs for logs in one.logs for log in logs.values()
    )
    answers = [
        _answers(table.join(common, on="id"), side, name, named=bool(classes), silent=silent)
        for name, side, table in sides
    ]
    pl.concat(answers).write_parquet(folder / "predictions.parquet")
    groups = {name: {"column": name} for name in attributes}
    if "task" in columns and "task" not in groups:
        groups["task"] = {"column": "task"}
    of_prompts = {"prompt length": "prompt_length", "prompt script": "prompt_script"}
    features = [name for name, of_log in of_prompts.items() if examples[of_log].n_unique() > 1]
    config = {
        "version": 1,
        "project": "compare",
        "source": {
            "kind": "predictions",
            "files": str((folder / "predictions.parquet").absolute()),
            "examples": str((folder / "examples.parquet").absolute()),
            "classes": classes or _outcomes(answers),
        },
        "baseline": first.models[0],
        "label": {"column": "label"} | ({"positive": positive} if positive else {}),
        "groups": {name: column | {"bins": "each"} for name, column in groups.items()},
        "slices": {"features": [*groups, *features, "position"]},
        "tracking": {"uri": tracking or "off"},
    }
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def _write_texts(pairs: Sequence[ComparedLogs], folder: Path) -> None:
    """Write what was asked and answered, for the page: all, or of many examples those that change.

    Args:
        pairs: As for `judge_apart`.
        folder: That of the tables.
    """
    tables = []
    for one in pairs:
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


def _outcomes(answers: Sequence[pl.DataFrame]) -> list[str]:
    """The outcomes that occur, and the two that always may."""
    seen = {value for table in answers for value in table["predicted"].drop_nulls().unique()}
    return [name for name in (RIGHT, WRONG, OTHER) if name in (RIGHT, WRONG) or name in seen]


def classes_of(pairs: Sequence[ComparedLogs]) -> list[str]:
    """List class names where answers are classes and right means equal to the label; else none."""
    names: set[str] = set()
    for one in pairs:
        table = one.rows.table
        if any(log.format not in TABLES for logs in one.logs for log in logs.values()):
            return []
        for side in ("before", "after"):
            equal = (pl.col(f"answer_{side}") == pl.col("target")).fill_null(False)
            if not table.select((equal.cast(pl.Float64) == pl.col(f"score_{side}")).all()).item():
                return []
            answers = table[f"answer_{side}"].drop_nulls()
            if answers.is_empty() or table["target"].null_count():
                return []
            names |= {*table["target"].unique()}
            if len({*names, *answers.unique()}) > min(MOST_CLASSES, table.height / MEAN_SIZE):
                return []
    return sorted(names)


def _answers(
    table: pl.DataFrame, side: str, model: str, *, named: bool, silent: bool
) -> pl.DataFrame:
    """What one model answers, a row an example and rerun, as an audit of predictions reads it.

    Args:
        table: The paired rows.
        side: `before` or `after`.
        model: Name of the model.
        named: Answers are names of classes.
        silent: A missing answer is one that the model did not give.
    """
    if named:
        said = pl.col(f"answer_{side}")
    else:
        wrong = pl.col(f"score_{side}") != 1
        moved = wrong & (pl.col(f"answer_hash_{side}") != _usual_wrong_answer())
        said = pl.when(moved).then(pl.lit(OTHER)).when(wrong).then(pl.lit(WRONG))
        said = said.otherwise(pl.lit(RIGHT))
    given, answer = ~pl.col(f"unanswered_{side}"), pl.col(f"answer_{side}")
    if silent and not table[f"answer_{side}"].is_null().all():
        given &= answer.is_not_null() | (pl.col(f"score_{side}") == 1)
    said = pl.when(given).then(said)
    rows = table.select(
        example_id=pl.col("id"), variant=pl.lit(model), model=pl.lit("0"),
        rerun=pl.col(f"rerun_{side}").cast(pl.String), predicted=said,
    )  # fmt: skip
    return rows.unique(["example_id", "rerun"], keep="first", maintain_order=True)


def _usual_wrong_answer() -> pl.Expr:
    """The first wrong answer to each example in any rerun, the original's where it gave one."""
    first = (
        pl.col(f"answer_hash_{side}")
        .filter((pl.col(f"score_{side}") != 1) & ~pl.col(f"unanswered_{side}"))
        .first()
        .over("id")
        for side in ("before", "after")
    )
    return pl.coalesce(*first)
