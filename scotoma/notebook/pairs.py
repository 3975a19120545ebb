"""What do answers that a notebook holds say? Measured, judged and searched without a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.answers.pair import Pair
from scotoma.audit import Audit
from scotoma.audit.rows import audit_rows
from scotoma.config.gate import GateRules, chosen_rules, parse_rules
from scotoma.errors import DataError
from scotoma.notebook.opened import OpenedAudit
from scotoma.slices import SearchSettings, SliceReport
from scotoma.slices import find_slices as search
from scotoma.steps.in_memory import AnswersInMemory, gate_of

IN_MEMORY = "in memory"


def measure(
    pair: Pair,
    *,
    positive: Any = None,
    advantaged: Mapping[str, Any] | None = None,
    clarify: bool = True,
    run_to_run: bool = True,
) -> pl.DataFrame:
    """Measure everything that an audit of predictions measures but its slices.

    Args:
        pair: From `scotoma.pair`.
        positive: The favourable class; None where every class counts alike.
        advantaged: Attribute to the value that its others are compared with.
        clarify: The 21 metrics of SageMaker Clarify.
        run_to_run: The seven metrics of the fixed-seed study on every model.

    Returns:
        A row an estimate, with the columns of numbers.parquet: question, variant, metric, group,
        class, condition, what (`dense`, `compressed`, `absolute`, ...), value, low, high, level, n,
        models, effective_events, reason, note, se, df, scale, and the parts of its variance.
        Rates and their changes are fractions, `relative` is compressed / dense - 1.

    Raises:
        DataError: A class or an attribute that is not there.

    >>> import scotoma
    >>> y = [0, 1] * 300
    >>> rows = scotoma.measure(scotoma.pair(y, y, [1, 1] * 150 + y[300:]), clarify=False)
    >>> change = rows.filter(question="rates", metric="error", group="all", what="absolute")
    >>> change["value"].item(), change["n"].item()
    (0.25, 600)
    """
    return audit_rows(_audit(pair, positive, advantaged, clarify=clarify, run_to_run=run_to_run))


def judge(
    pair: Pair,
    rules: str | Path | GateRules | None = None,
    *,
    margin: float | None = None,
    positive: Any = None,
    advantaged: Mapping[str, Any] | None = None,
    clarify: bool = False,
) -> OpenedAudit:
    """Judge a pair as the gate of an audit does.

    Args:
        pair: From `scotoma.pair`.
        rules: A gate file, its text, or rules; None for those that hold where no file is given.
        margin: Largest rise of an error rate that passes these, a fraction; None for their own.
        positive: The favourable class; None where every class counts alike.
        advantaged: Attribute to the value that its others are compared with.
        clarify: Measure Clarify's metrics, which rules may ask for.

    Returns:
        An audit as `scotoma.open` gives it: `.verdict`, `.deciding`, `.numbers`, `.groups`,
        `.plot`.

    Raises:
        ConfigError: Rules that cannot be read.
        DataError: As `measure`.

    >>> import scotoma
    >>> y = [0, 1] * 300
    >>> scotoma.judge(scotoma.pair(y, y, [1, 1] * 150 + y[300:])).verdict
    'FAIL'
    """
    audit = _audit(pair, positive, advantaged, clarify=clarify, run_to_run=False)
    return OpenedAudit(IN_MEMORY, audit, gate_of(audit, _rules(rules, margin)))


def find_slices(pair: Pair, **settings: Any) -> SliceReport:
    """Find the slices that nobody named on which compressed models err more than dense ones.

    Args:
        pair: From `scotoma.pair`; groups, features and the class describe its examples. Without
            labels, slices on which more answers change are found.
        **settings: Of `scotoma.slices.SearchSettings`: mode, alpha, min_size, max_cross, seed, ...

    Raises:
        DataError: Nothing that could describe a slice.

    >>> import scotoma
    >>> y, sex = [0, 1] * 300, ["f", "m", "m"] * 200
    >>> int8 = [1 - label if one == "f" else label for label, one in zip(y, sex)]
    >>> scotoma.find_slices(scotoma.pair(y, y, int8, groups={"sex": sex})).slices[0].text
    'sex = f'
    """
    own = pair.examples
    features = dict(own.groups.values)
    if own.features is not None:
        features |= {one.name: one for one in own.features if one.name not in features}
    if not features:
        raise DataError(
            "slices need groups or features that describe examples, got none; pass them to "
            "scotoma.pair"
        )
    compressed = pair.compressed.predicted
    if pair.dense is None:
        raise DataError(
            "slices need dense answers to compare with, got compressed ones alone; pass both "
            "to scotoma.pair"
        )
    dense = pair.dense.predicted
    table = pl.DataFrame(features)
    if own.labels is None:
        asked = SearchSettings(**{"metric": "flip"} | settings)
        return search(table, compressed != dense[:, :1], asked, clusters=own.cluster)
    labels = pair.labels[:, None]
    asked = SearchSettings(**{"paired": pair.paired} | settings)
    return search(
        table, compressed != labels, asked, baseline=dense != labels, clusters=own.cluster
    )


def _audit(
    pair: Pair,
    positive: Any,
    advantaged: Mapping[str, Any] | None,
    *,
    clarify: bool,
    run_to_run: bool,
) -> Audit:
    return AnswersInMemory.of([pair]).audit(
        positive=None if positive is None else str(positive),
        advantaged={name: str(value) for name, value in (advantaged or {}).items()},
        clarify=clarify,
        run_to_run=run_to_run,
    )


def _rules(rules: str | Path | GateRules | None, margin: float | None) -> GateRules | None:
    if isinstance(rules, GateRules):
        return rules
    if isinstance(rules, str) and "\n" in rules:
        return parse_rules(rules, "the rules")
    return chosen_rules(None if rules is None else Path(rules), margin)
