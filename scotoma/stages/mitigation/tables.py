"""Write a mitigated variant beside the others, as an audit of predictions of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import yaml

from scotoma.config import Config
from scotoma.config.model import threshold_classes
from scotoma.datasets import Examples
from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.stages.judging.terms import Judging
from scotoma.storage.files import written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.stages.mitigation.apply import Mitigated

__all__ = ["write_tables"]


def write_tables(run: Run, mitigated: Mitigated, folder: Path) -> tuple[Path, Path | None]:
    """Write the judging half: examples, predictions of every variant, rules and configuration.

    Args:
        run: The audit that was mitigated; nothing in it is changed.
        mitigated: What became of one of its variants.
        folder: An existing folder.

    Returns:
        The configuration, and the gate's rules; None where the default rules hold.
    """
    examples = Examples.read(run.examples, images=False, split="test").keep(mitigated.judged)
    tables = [
        _long(name, predictions.predicted[mitigated.judged], predictions.classes, examples.ids)
        for name, predictions in _predictions(run)
    ]
    tables.append(_long(mitigated.name, mitigated.predicted, examples.classes, examples.ids))
    cluster = ["cluster"] if "cluster" in examples.table.columns else []
    kept = ["example_id", "label", *examples.attributes, *cluster]
    with written(folder / "examples.parquet") as temporary:
        examples.table.select(kept).write_parquet(temporary)
    with written(folder / "predictions.parquet") as temporary:
        pl.concat(tables).write_parquet(temporary)
    with written(folder / "rules.json") as temporary:
        rules = [json.loads(rule.model_dump_json()) for rule in mitigated.rules]
        temporary.write_text(json.dumps(rules, indent=1) + "\n", encoding="utf-8")
    config = _config(run.config, examples, mitigated)
    with written(folder / "audit.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    rules_of_gate = Judging.of(run).rules
    if rules_of_gate is None:
        return folder / "audit.yaml", None
    with written(folder / "gate.yaml") as temporary:
        content = rules_of_gate.model_dump(mode="json", exclude_unset=True)
        temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder / "audit.yaml", folder / "gate.yaml"


def _predictions(run: Run) -> list[tuple[str, Predictions]]:
    names = [variant.name for variant in run.config.resolved_variants]
    run.fetch(*map(run.predictions, names))
    return [(name, Predictions.read(run.predictions(name))) for name in names]


def _long(
    variant: str, predicted: NDArray[Any], classes: tuple[str, ...], ids: list[str]
) -> pl.DataFrame:
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


def _config(config: Config, examples: Examples, mitigated: Mitigated) -> dict[str, Any]:
    """The configuration of the audit, of the same examples, groups and terms."""
    threshold = config.label.threshold
    positive = config.label.positive if threshold is None else threshold_classes(threshold)[0]
    label: dict[str, Any] = {"column": "label"}
    if positive is not None:
        label["positive"] = str(positive)
    groups: dict[str, Any] = {name: {"column": name} for name in examples.attributes}
    if examples.intersections:
        groups["intersections"] = [list(names) for names in examples.intersections]
    compressed = {one.name: one.paired for one in config.resolved_variants[1:]}
    compressed[mitigated.name] = mitigated.paired
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
            *({"predictions": [name], "paired": pair} for name, pair in compressed.items()),
        ],
        "population": {"seed": config.population.seed},
        "tracking": {"uri": "off"},
    }
    if "cluster" in examples.table.columns:
        content["cluster"] = {"column": "cluster"}
    if config.advantaged:
        content["advantaged"] = dict(config.advantaged)
    return content
