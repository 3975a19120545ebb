"""Write a mitigated variant beside the others, as an audit of predictions of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import yaml

from scotoma.config import Config
from scotoma.config.label import threshold_classes
from scotoma.datasets import AuditedExamples
from scotoma.numbers.inputs import Array, Flags, Ints
from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.steps.judging.terms import Judging
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.mitigation.decide import Rule
    from scotoma.steps.mitigation.apply import Mitigated

__all__ = ["Decided", "as_audited", "write_mitigated", "write_tables"]


@dataclass(frozen=True)
class Decided:
    """What the models of a variant say of the examples that judge.

    Attributes:
        predicted: Class ids, shape (judged, models).
        paired: Whether model k is made of dense member k.
    """

    predicted: Ints
    paired: bool


def write_mitigated(run: Run, mitigated: Mitigated, folder: Path) -> tuple[Path, Path | None]:
    """Write a mitigated variant beside the others; arguments and result as for `write_tables`."""
    own = Decided(mitigated.predicted, mitigated.paired)
    return write_tables(
        run, mitigated.judged, as_audited(run, mitigated.judged) | {mitigated.name: own},
        mitigated.rules, folder,
    )  # fmt: skip


def as_audited(run: Run, judged: Flags) -> dict[str, Decided]:
    """Read what every variant of an audit says of the examples that judge."""
    variants = run.config.resolved_variants
    run.fetch(*(run.predictions(variant.name) for variant in variants))
    decided = {}
    for variant in variants:
        kept = Predictions.read(run.predictions(variant.name))
        decided[variant.name] = Decided(kept.predicted[judged].astype(np.int64), variant.paired)
    return decided


def write_tables(
    run: Run,
    judged: Flags,
    decided: Mapping[str, Decided],
    rules: Sequence[Rule],
    folder: Path,
) -> tuple[Path, Path | None]:
    """Write the examples that judge, what every variant says of them, rules and configuration.

    Args:
        run: The audit that was mitigated; nothing in it is changed.
        judged: Whether each test example judges, shape (N,).
        decided: By variant, dense first.
        rules: Those fitted; without any no rules.json is written.
        folder: An existing folder.

    Returns:
        The configuration, and the gate's rules; None where the default rules hold.
    """
    examples = AuditedExamples.read(run.examples, images=False, split="test").keep(judged)
    tables = [
        _long(name, own.predicted, examples.classes, examples.ids) for name, own in decided.items()
    ]
    cluster = ["cluster"] if "cluster" in examples.table.columns else []
    kept = ["example_id", "label", *examples.attributes, *cluster]
    with written(folder / "examples.parquet") as temporary:
        examples.table.select(kept).write_parquet(temporary)
    with written(folder / "predictions.parquet") as temporary:
        pl.concat(tables).write_parquet(temporary)
    if rules:
        with written(folder / "rules.json") as temporary:
            content = [json.loads(rule.model_dump_json()) for rule in rules]
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    config = _config(run.config, examples, {name: one.paired for name, one in decided.items()})
    with written(folder / "audit.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    rules_of_gate = Judging.of(run).rules
    if rules_of_gate is None:
        return folder / "audit.yaml", None
    with written(folder / "gate.yaml") as temporary:
        gate = rules_of_gate.model_dump(mode="json", exclude_unset=True)
        temporary.write_text(yaml.safe_dump(gate, sort_keys=False), encoding="utf-8")
    return folder / "audit.yaml", folder / "gate.yaml"


def _long(variant: str, predicted: Array, classes: tuple[str, ...], ids: list[str]) -> pl.DataFrame:
    """One row an example and model."""
    n, models = predicted.shape
    return pl.DataFrame(
        {
            "example_id": np.tile(np.array(ids, object), models).tolist(),
            "variant": [variant] * (n * models),
            "model": [f"model-{k:03d}" for k in range(models) for _ in range(n)],
            "predicted": np.array(classes, object)[predicted.T.ravel()].tolist(),
        }
    )


def _config(
    config: Config, examples: AuditedExamples, paired: Mapping[str, bool]
) -> dict[str, Any]:
    """The configuration of the audit, of the same examples, groups and terms."""
    threshold = config.label.threshold
    positive = config.label.positive if threshold is None else threshold_classes(threshold)[0]
    label: dict[str, Any] = {"column": "label"}
    if positive is not None:
        label["positive"] = str(positive)
    groups: dict[str, Any] = {name: {"column": name} for name in examples.attributes}
    if examples.intersections:
        groups["intersections"] = [list(names) for names in examples.intersections]
    content: dict[str, Any] = {
        "version": 1,
        "project": config.project,
        "source": {
            "kind": "predictions",
            "files": "predictions.parquet",  # beside the configuration
            "examples": "examples.parquet",
            "classes": list(examples.classes),
        },
        "label": label,
        "groups": groups,
        "variants": [
            "dense",
            *(
                {"predictions": [name], "paired": pair}
                for name, pair in paired.items()
                if name != "dense"
            ),
        ],
        "population": {"seed": config.population.seed},
        "tracking": {"uri": "off"},
    }
    if "cluster" in examples.table.columns:
        content["cluster"] = {"column": "cluster"}
    if config.advantaged:
        content["advantaged"] = dict(config.advantaged)
    return content
