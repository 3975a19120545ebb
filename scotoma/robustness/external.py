"""From external predictions on corrupted pictures to those that the robustness step measures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl

from scotoma.config import Config
from scotoma.corruptions import KINDS, SEVERITIES
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.numbers.inputs import Array, Codes
from scotoma.predictions.external import PredictionRequest, read_external
from scotoma.predictions.patterns import files_of_tables
from scotoma.predictions.reruns import example_of_row
from scotoma.predictions.tables import PredictionTable, models_by_variant, read_columns
from scotoma.printable import nearest, printable
from scotoma.processes import progress
from scotoma.robustness.plan import CorruptedCondition, corrupted_file
from scotoma.run import Run
from scotoma.run.sources import Sources, examine
from scotoma.sources.answers import names_in_files
from scotoma.storage.files import read_record, written

CLASSES = 1_000  # of ImageNet
SHOWN = 5  # cells that a message lists
CALLED = "{variant} under {corruption} at severity {severity}"  # a variant under a condition
NAMED = re.compile(r"(.*) under (.*) at severity (.*)", re.DOTALL)


@dataclass(frozen=True)
class Conditions:
    """What the files hold.

    Attributes:
        kinds: Corruptions, in the order of the benchmark.
        severities: Of each of them, ascending.
        rows: Places of the examples among the test examples.
    """

    kinds: tuple[str, ...]
    severities: tuple[int, ...]
    rows: Codes


def find_conditions(
    config: Config, models: Mapping[str, Sequence[str]], examples: AuditedExamples
) -> Conditions:
    """Read which models predict under which corruption, at which severity, of which examples.

    Args:
        config: Names the files.
        models: By what files call a variant, the models that are asked for.
        examples: The test examples.

    Raises:
        DataError: A corruption or severity that is unknown, or a model that lacks a cell: means
            over other cells for other models would be no comparison.
    """
    tables = _tables(config)
    there: dict[tuple[str, int], dict[str, Sequence[str]]] = {}
    for name, known in models_by_variant(tables, config.limits).items():
        called, kind, severity = _parsed(name)
        if called in models:
            there.setdefault((kind, severity), {})[called] = known
    if not there:
        raise DataError(
            f"robustness.files must hold predictions of {', '.join(map(repr, models))}, got none; "
            "name variants as source.files does"
        )
    kinds = tuple(kind for kind in KINDS if any(kind == one for one, _ in there))
    severities = tuple(sorted({severity for _, severity in there}))
    missing = [
        f"{_called(called, CorruptedCondition(kind, severity))}, model {model}"
        for (called, names), kind, severity in product(models.items(), kinds, severities)
        for model in names
        if model not in there.get((kind, severity), {}).get(called, ())
    ]
    if missing:
        more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
        raise DataError(
            printable(
                "robustness.files must hold every model under every corruption at every severity, "
                f"and lacks {'; '.join(missing[:SHOWN])}{more}; add them, or leave the corruption "
                "or severity out for all"
            )
        )
    _refuse_other_files(config, severities, len(examples.classes))
    ids: set[str] = set()
    for table in tables:
        value = () if examples.several else ("predicted",)
        frame = read_columns(table, "example_id", *value, limits=config.limits)
        ids.update(frame["example_id"].drop_nulls().unique())
    each = examples.rows_an_image
    rows = [
        place * each + label
        for place, example_id in enumerate(examples.image_ids)
        if example_id in ids or example_of_row(example_id) in ids
        for label in range(each)
    ]
    return Conditions(kinds, severities, np.array(rows, np.intp))


def import_corrupted(
    run: Run,
    conditions: Sequence[CorruptedCondition],
    members: Mapping[str, int],
    examples: AuditedExamples,
    *,
    confidence: bool,
) -> None:
    """Write what every member predicts under each condition: a file a condition.

    Args:
        run: Whose predictions on clean pictures are imported.
        conditions: What the files hold.
        members: Variant to how many of its members are asked for.
        examples: The test examples that were corrupted.
        confidence: Whether scores are read, too.

    Raises:
        DataError: As `read_external`: an example that is not known, or that a model lacks.
    """
    outputs = {condition: corrupted_file(run, condition) for condition in conditions}
    pattern, tables = _pattern(run.config), _tables(run.config)
    seen = examine({"corrupted": files_of_tables(pattern, tables)}, Sources()).key("corrupted")
    seen += "/scores" if confidence else ""
    opens = [run.examples]
    with run.step("robustness-files", outputs.values(), made_with=seen, opens=opens) as due:
        if not due:
            return
        models = imported_models(run, members)
        # An example whose clean picture was predicted again has a row for each rerun.
        supplied = run.config.source.answers(run.config)
        again = 1 if supplied is None else supplied.rows
        ids = list(examples.ids if again == 1 else map(example_of_row, examples.ids[::again]))
        asked = {
            _called(called, condition): names
            for condition in outputs
            for called, names in models.items()
        }
        label, limits = run.config.label, run.config.limits
        progress.start("import predictions on corrupted pictures", len(outputs))
        answers = read_external(
            tables,
            PredictionRequest(
                asked, ids, examples.classes, confidence, label.threshold, limits, label.several
            ),
        )
        for condition, path in outputs.items():
            each = [answers[_called(called, condition)] for called in models]
            nothing = np.full(len(examples.ids), np.nan, np.float32)

            def of_rows(parts: list[Array]) -> Array:
                return np.concatenate(parts, axis=1).repeat(again, axis=0)

            frame = {
                "example_id": examples.ids,
                "predicted": of_rows([one.predicted for one in each]),
                "change": nothing,  # nobody has shown the pictures
                "similarity": nothing,
            }
            scores = [one.scores.astype(np.float32) for one in each if one.scores is not None]
            if scores:
                frame["score"] = of_rows(scores)
            best = [one.top5 for one in each if one.top5 is not None]
            if len(best) == len(each):
                truth = examples.labels[:, None, None]
                frame["top5"] = (of_rows(best) == truth).any(axis=2)
            with written(path) as temporary:
                pl.DataFrame(frame).write_parquet(temporary)
            progress.advance("import predictions on corrupted pictures")


def _refuse_other_files(config: Config, severities: tuple[int, ...], classes: int) -> None:
    """Refuse what cannot stand above AlexNet's errors on the published files."""
    asked = config.robustness
    if asked is None or asked.published is None:
        return
    if severities != SEVERITIES:
        raise DataError(
            "robustness.published compares with means over severities 1 to 5, got "
            f"{_listed(severities)}; add the others, or leave published out"
        )
    if classes != CLASSES:
        raise DataError(
            f"robustness.published compares errors among {CLASSES:,} classes, got {classes:,}; "
            "name all in source.classes, or leave published out"
        )


def _pattern(config: Config) -> str:
    asked = config.robustness
    assert asked is not None
    assert asked.files is not None
    return asked.files


def _tables(config: Config) -> list[PredictionTable]:
    return config.source.tables(_pattern(config), CALLED, "robustness.files")


def imported_models(run: Run, members: Mapping[str, int]) -> dict[str, list[str]]:
    """List, by what files call a variant, the models that its members were taken from.

    Args:
        run: Whose predictions are imported.
        members: Variant to how many of its members are asked for.
    """
    models, called = {}, names_in_files(run.config)
    for name, count in members.items():
        records = [run.member(name, k).with_suffix(".json") for k in range(count)]
        run.fetch(*records)
        models[called[name]] = [str(read_record(record)["taken_from"]) for record in records]
    return models


def _called(variant: str, condition: CorruptedCondition) -> str:
    return CALLED.format(variant=variant, corruption=condition.kind, severity=condition.severity)


def _parsed(name: str) -> tuple[str, str, int]:
    """Take a variant under a condition apart."""
    match = NAMED.fullmatch(name)
    assert match is not None
    called, kind, severity = match.groups()
    if kind not in KINDS:
        raise DataError(
            f"robustness.files must name corruptions of Scotoma, got {printable(kind)!r}"
            f"{nearest(kind, KINDS)}; they are {_listed(KINDS)}"
        )
    if severity not in map(str, SEVERITIES):
        raise DataError(
            f"severity in robustness.files must be {_listed(SEVERITIES)}, got "
            f"{printable(severity)!r} of {kind}; predictions on clean pictures belong in "
            "source.files"
        )
    return called, kind, int(severity)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
