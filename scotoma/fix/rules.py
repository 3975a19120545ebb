"""Fit rules on one half of an audit's examples, decide on the other, and audit what they say."""

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
from scotoma.config.techniques import TECHNIQUES
from scotoma.datasets import AuditedExamples
from scotoma.errors import ConfigError, DataError
from scotoma.fix.before_after import Fixed
from scotoma.fix.outputs import member_outputs
from scotoma.fix.refusals import refuse_heads
from scotoma.mitigation import decide
from scotoma.mitigation.held_out import judged_half
from scotoma.numbers.inputs import Array, Flags, Ints
from scotoma.predictions import Predictions
from scotoma.printable import nearest, printable
from scotoma.processes import progress, worker_pool
from scotoma.processes.machine import cores
from scotoma.run import Run
from scotoma.run.finished import compressed_variant
from scotoma.run.judging import Judging
from scotoma.storage.files import written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.mitigation.decide import Rule


def apply_technique(
    run: Run, technique: str, variant: str, attribute: str | None, *, together: int
) -> Fixed:
    """Fit a rule for each member on one half of the test examples, and decide on the other.

    Args:
        run: A finished audit.
        technique: One of `AFTERWARDS`.
        variant: A compressed variant.
        attribute: Whose groups count, several joined by commas; None where there is one.
        together: Members of one ensemble.

    Raises:
        ConfigError: No such technique, variant or attribute, or too few members.
        DataError: The audit lacks what the technique needs.
    """
    refuse_heads(run.config)
    compressed_variant(run, variant)
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    if not examples.labelled:
        raise DataError("a rule is fitted on labels, and this audit has none; add label.column")
    facts = TECHNIQUES[technique]
    if facts.two_classes and len(examples.classes) != 2:
        raise ConfigError(
            f"{technique} decide between two classes, and this audit has {len(examples.classes)}; "
            "take --by offsets"
        )
    needs = decide.rule_needs(technique)
    by = _attributes(examples, attribute, technique) if needs.attributes != "never" else []
    names, group = group_codes(examples, by)
    labels, judged = examples.labels, judged_examples(run, examples)
    if by:
        refuse_empty(labels[~judged], group[~judged], names, examples.classes, technique)
    outputs = member_outputs(run, variant, features=facts.slot == "last layer")
    fits = outputs[:, ~judged], labels[~judged], group[~judged]
    predicted, rules = _decided(technique, outputs[:, judged], group[judged], fits, together)
    return Fixed(
        f"{variant}+{technique}",
        variant,
        judged,
        clusters_of_halves(examples, judged),
        predicted,
        technique != "ensemble" and run.config.variant(variant).paired,
        {
            "technique": technique,
            "mitigated": f"{variant}+{technique}",
            "attribute": ",".join(by) or None,
            "needs": {
                "attributes": needs.attributes,
                "transductive": needs.transductive,
                "sentence": needs.sentence,
            },
        },
        rules,
    )


def judged_examples(run: Run, examples: AuditedExamples) -> Flags:
    """Draw the test examples that judge: the same half, whatever is chosen on the other.

    Args:
        run: Its seed decides.
        examples: Its test examples, with labels.

    Returns:
        Whether each of them judges, shape (N,).
    """
    _, cell = group_codes(examples, list(examples.attributes))
    strata = cell * len(examples.classes) + examples.labels
    return judged_half(strata, examples.clusters, run.config.population.seed)


def clusters_of_halves(examples: AuditedExamples, judged: Flags) -> tuple[int, int]:
    """Count the clusters among the examples that fit or choose, and among those that judge."""
    ids = np.arange(len(judged)) if examples.clusters is None else examples.clusters
    return len(np.unique(ids[~judged])), len(np.unique(ids[judged]))


def _decided(
    technique: str,
    judged: NDArray[np.float32],
    group: Ints,
    fits: tuple[NDArray[np.float32], Ints, Ints],
    together: int,
) -> tuple[Ints, tuple[decide.Rule, ...]]:
    """Class ids of the judging half, shape (judged, models), and the rules that gave them."""
    outputs, labels, groups = fits
    if technique == "ensemble":
        count = len(judged) // together
        if together < 2 or count < 1:
            raise ConfigError(
                f"--together must be from 2 to the number of members, {len(judged)}, got {together}"
            )
        rule = decide.fit("ensemble", outputs[:together], labels)
        parts = [judged[at * together : (at + 1) * together] for at in range(count)]
        return np.stack([rule(part) for part in parts], axis=1), (rule,)
    progress.start("fit rules", len(outputs))
    rules, columns = [], []
    # in processes of one thread: a small matrix shared out among threads stalls on a busy machine
    with worker_pool(min(cores(), len(outputs))) as pool:
        futures = [
            pool.submit(
                _fit_member, technique, (fit, labels, groups), (own, group), task="fitting a rule"
            )
            for fit, own in zip(outputs, judged, strict=True)
        ]
        for future in futures:
            rule, predicted = future.result()
            rules.append(rule)
            columns.append(predicted)
            progress.advance("fit rules")
    return np.stack(columns, axis=1), tuple(rules)


def _fit_member(
    technique: str,
    fits: tuple[NDArray[np.float32], Ints, Ints],
    judged: tuple[NDArray[np.float32], Ints],
) -> tuple[decide.Rule, Ints]:
    """Fit one member's rule, and decide with it."""
    rule = decide.fit(technique, *fits)
    return rule, rule(*judged)


def _attributes(examples: AuditedExamples, asked: str | None, technique: str) -> list[str]:
    known = list(examples.attributes)
    if not known:
        raise ConfigError(
            f"{technique} needs groups, and this audit has none; name an attribute under groups "
            "and audit again, or take --by ensemble"
        )
    if asked is None and len(known) > 1:
        raise ConfigError(f"--attribute must name one of {', '.join(known)}; several by commas")
    chosen = known if asked is None else asked.split(",")
    for name in chosen:
        if name not in known:
            raise ConfigError(
                f"--attribute must name one of {', '.join(known)}, got {printable(name)!r}"
                f"{nearest(name, known)}"
            )
    return chosen


def group_codes(examples: AuditedExamples, by: list[str]) -> tuple[list[str], Ints]:
    """Names of the groups that attributes form, and each example's."""
    rows = examples.table.select(by).iter_rows() if by else [()] * len(examples.ids)
    values = [",".join(f"{a}={v}" for a, v in zip(by, row, strict=True)) for row in rows]
    names, group = np.unique(values, return_inverse=True)
    return names.tolist(), group.astype(np.int64)


def refuse_empty(
    labels: Ints,
    group: Ints,
    names: list[str],
    classes: tuple[str, ...],
    technique: str,
) -> None:
    """Refuse groups without a class, or one group only, by their names."""
    if len(names) < 2:
        raise DataError(f"{technique} needs two groups or more, got {names[0]} only")
    counts = np.zeros((len(names), len(classes)), np.int64)
    np.add.at(counts, (group, labels), 1)
    if not counts.all():
        g, y = np.argwhere(counts == 0)[0]
        raise DataError(
            f"{technique} needs examples of every class in every group, got none of class "
            f"{printable(classes[y])!r} with {printable(names[g])} among the {len(labels):,} that "
            "fit it; add some, or name another --attribute"
        )


@dataclass(frozen=True)
class Decided:
    """What the models of a variant say of the examples that judge.

    Attributes:
        predicted: Class ids, shape (judged, models).
        paired: Whether model k is made of dense member k.
    """

    predicted: Ints
    paired: bool


def write_fixed(run: Run, fixed: Fixed, folder: Path) -> tuple[Path, Path | None]:
    """Write the half that judges, every variant of it and the fixed one, as files of an audit.

    Args:
        run: The audit.
        fixed: From `apply_technique` or `repair_variant`.
        folder: An empty folder.

    Returns:
        The configuration of the new audit, and its gate file, if the run has one.
    """
    decided = as_audited(run, fixed.judged)
    decided[fixed.name] = Decided(fixed.predicted, fixed.paired)
    return write_tables(run, fixed.judged, decided, fixed.rules, folder)


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
