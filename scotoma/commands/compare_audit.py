"""From compared logs to an audit of predictions: tables, a configuration, a verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml

from scotoma.audit import read_gate
from scotoma.commands.compare_logs import Compared
from scotoma.config import Config, load_config
from scotoma.config.gate import GateRules, parse_rules
from scotoma.errors import ConfigError
from scotoma.run import Run
from scotoma.run.folder import INPUTS
from scotoma.stages.external.predictions import complete
from scotoma.stages.judging.terms import Judging
from scotoma.stages.steps import groups
from scotoma.stages.texts import texts_file

__all__ = ["Verdict", "audit_of", "judge_apart"]

RIGHT, WRONG, OTHER = "right", "wrong", "wrong, another answer"
MOST_TEXTS = 5_000  # examples of a variant whose texts are kept for the page
MOST_CLASSES = 100  # of tables whose answers are class names
TABLES = ("table", "timm", "mlflow")  # formats whose answers may be names of classes
RULES = """\
rules:
  - id: error_all
    metric: error
    over: all
    max_increase: {relative: 0.2, absolute: 0.005}
"""
GROUP_RULES = """\
  - id: error_groups
    metric: error
    over: groups
    max_increase: {relative: 0.2, absolute: 0.005}
"""


@dataclass(frozen=True)
class Verdict:
    """A verdict on compared logs.

    Attributes:
        content: gate.json.
        exit_code: 0 pass, 1 fail, 3 unsure where the rules say that this fails.
    """

    content: str
    exit_code: int


def judge_apart(pairs: Sequence[Compared], judging: Judging) -> Verdict:
    """Judge without leaving an audit behind.

    Args:
        pairs: Of the original and each compressed model, in binary scores.
        judging: Rules and day.

    Raises:
        ScotomaError: What an audit of these answers refuses.
    """
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        path = _write(pairs, Path(folder, "inputs"), brief=judging.rules is None)
        run = Run.create(Path(folder, "run"), complete(load_config(path)))
        rules = judging.rules or _rules(run.config)
        Judging(rules, judging.as_of).leave(run)
        *steps, _, _ = groups(run.config)  # all but the page and MLflow
        for group in steps:
            for step in group:
                step.function(run)
        return _verdict(run.path("gate.json"))


def audit_of(pairs: Sequence[Compared], out: Path, judging: Judging, *, quiet: bool) -> Verdict:
    """Audit compared logs as predictions, in a folder with all that an audit leaves.

    Args:
        pairs: As for `judge_apart`.
        out: Folder of the run; what it reads lies in `compared/`.
        judging: Rules and day.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: What an audit of these answers refuses.
    """
    from scotoma.commands.audit_run import run_configured

    if out.is_dir() and any(out.iterdir()) and not (out / INPUTS).is_dir():
        raise ConfigError(f"output folder {out} holds other files; choose another --out")
    path = _write(pairs, out / INPUTS, brief=False)
    _write_texts(pairs, out / INPUTS)
    config = load_config(path)
    rules = judging.rules or _rules(config)
    run_configured(
        complete(config), str(out), Judging(rules, judging.as_of), None,
        as_json=False, quiet=quiet, step=None, silent=True,
    )  # fmt: skip
    return _verdict(out / "gate.json")


def _verdict(path: Path) -> Verdict:
    gate = read_gate(path)
    return Verdict(path.read_text(encoding="utf-8"), gate.exit_code)


def _rules(config: Config) -> GateRules | None:
    """Rules for right and wrong; those of an audit where answers are classes."""
    if RIGHT not in getattr(config.source, "classes", ()):
        return None
    return parse_rules(RULES + (GROUP_RULES if config.groups.attributes else ""), "the rules")


def _write(pairs: Sequence[Compared], folder: Path, *, brief: bool) -> Path:
    """Write the tables and the configuration of an audit.

    Args:
        pairs: As for `judge_apart`.
        folder: For the files.
        brief: Search slices by position alone: nobody will see them, and no rule asks for them.

    Returns:
        The configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first = pairs[0]
    classes = _classes(pairs)
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
        "position": pl.col("position"),
        **({"task": pl.col("task")} if examples["task"].n_unique() > 1 else {}),
        **{name: pl.col(f"group {name}") for name in attributes},
    }
    examples.select(**columns).write_parquet(folder / "examples.parquet")
    sides = [(first.models[0], "before", tables[0])]
    sides += [(one.models[1], "after", table) for one, table in zip(pairs, tables, strict=True)]
    answers = [
        _answers(table.join(common, on="id"), side, name, named=bool(classes))
        for name, side, table in sides
    ]
    pl.concat(answers).write_parquet(folder / "predictions.parquet")
    groups = {name: {"column": name} for name in attributes}
    if "task" in columns and "task" not in groups:
        groups["task"] = {"column": "task"}
    lengths = examples["prompt_length"].n_unique() > 1
    features = ["prompt length"] if lengths else []
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
        "label": {"column": "label"},
        "groups": {name: column | {"bins": "each"} for name, column in groups.items()},
        "slices": {"features": ["position"] if brief else [*groups, *features, "position"]},
        "tracking": {"uri": "off"},
    }
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def _write_texts(pairs: Sequence[Compared], folder: Path) -> None:
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
    seen = {value for table in answers for value in table["predicted"].unique()}
    return [name for name in (RIGHT, WRONG, OTHER) if name in (RIGHT, WRONG) or name in seen]


def _classes(pairs: Sequence[Compared]) -> list[str]:
    """Class names where answers are classes and right means equal to the label; else none."""
    names: set[str] = set()
    for one in pairs:
        table = one.rows.table
        if any(log.format not in TABLES for logs in one.logs for log in logs.values()):
            return []
        for side in ("before", "after"):
            equal = (pl.col(f"answer_{side}") == pl.col("target")).cast(pl.Float64)
            if not table.select((equal == pl.col(f"score_{side}")).all()).item():
                return []
            if table[f"answer_{side}"].null_count() or table["target"].null_count():
                return []
            names |= {*table[f"answer_{side}"].unique(), *table["target"].unique()}
            if len(names) > MOST_CLASSES:
                return []
    return sorted(names)


def _answers(table: pl.DataFrame, side: str, model: str, *, named: bool) -> pl.DataFrame:
    """What one model answers, a row an example and rerun, as an audit of predictions reads it."""
    if named:
        said = pl.col(f"answer_{side}")
    else:
        said = pl.when(pl.col(f"score_{side}") == 1).then(pl.lit(RIGHT)).otherwise(pl.lit(WRONG))
        again = table.select(pl.col("rerun_before", "rerun_after").max()).row(0) != (0, 0)
        if side == "after" and not again:
            moved = (pl.col("score_before") != 1) & (pl.col("score_after") != 1)
            moved &= pl.col("answer_hash_before") != pl.col("answer_hash_after")
            said = pl.when(moved).then(pl.lit(OTHER)).otherwise(said)
    rows = table.select(
        example_id=pl.col("id"), variant=pl.lit(model), model=pl.lit("0"),
        rerun=pl.col(f"rerun_{side}").cast(pl.String), predicted=said,
    )  # fmt: skip
    return rows.unique(["example_id", "rerun"], keep="first", maintain_order=True)
