"""Where is each number of an audit? Addresses that outlive the shapes of today's files.

An address names a number by what it is: the question, the variant, the metric, the group, the
class, the condition under which it holds, and which of the numbers there. Golden files hold
addresses; only this module knows in which section of which file a number lies. If numbers move,
it is replaced, and the golden files stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from scotoma.audit import Quantity
from scotoma.bias.four_fifths import standing
from scotoma.runs.effects import sawilowsky

__all__ = ["FIELDS", "Address", "Rows", "rows_of"]

Value = float | str | None
Rows = dict["Address", dict[str, Value]]


class Address(NamedTuple):
    """What a number is; parts that do not apply are empty."""

    question: str
    variant: str = ""
    metric: str = ""
    group: str = ""
    class_name: str = ""
    condition: str = ""
    what: str = ""

    def __str__(self) -> str:
        """The parts, as patterns in `LEFT` match them."""
        return " / ".join(self)


# Fields of an estimate. A number that stands alone has a value only.
FIELDS = (
    "value", "low", "high", "level", "n", "members", "effective_events", "se", "df", "scale",
)  # fmt: skip
# Section of audit.json: the question that it answers.
QUESTIONS = {
    "divergence": "divergence",
    "examples": "examples", "groups": "groups", "labels": "labels",
    "one_model": "one model", "parity": "parity", "robustness": "robustness",
    "slices": "slices", "variants": "variants",
}  # fmt: skip
# What is about files, texts or single examples, or says how it was asked.
NO_NUMBERS = {
    "admission", "config_sha256", "deterministic", "fingerprint", "gallery", "inputs", "project",
    "scope", "scores", "scotoma", "seed", "version",
}  # fmt: skip
NO_RESULTS = {
    "about_images", "as_of", "corruption_seeds", "corruptions", "features", "level",
    "lower_is_better", "masked", "note", "notes", "predicates", "profile", "questions", "reason",
    "rules", "seed", "sentence", "sentences", "settings", "severities", "shown", "summary", "title",
    "unit", "waived", "waived_until", "where",
}  # fmt: skip
# Which texts are results.
WORDS = {
    "effect", "leaning", "mean_moves", "scale", "spread_moves", "standing", "verdict",
    "worst_class",
}  # fmt: skip
# List of records: what tells its records apart.
FACETS = ("attribute", "disadvantaged", "advantaged", "metric")
IDENTITY: Mapping[str, tuple[str, ...]] = {
    "accuracy": ("technique", "baseline"),
    "behaviours": ("name",),
    "bias": ("category", "context"),
    "bias.clarify": ("column", *FACETS[1:]),
    "cells": ("technique", "baseline", "metric"),
    "class_precision": ("name",),
    "classes": ("class",),
    "comparisons": ("technique", "metric"),
    "candidates": ("model",),
    "decisions": ("metric", "group"),
    "equal_accuracy": ("technique", "baseline"),
    "fairness": ("column", "metric"),
    "flips": ("kind",),
    "groups": ("group", "key"),
    "minority": ("technique", "baseline", "metric"),
    "one_model.variants": ("members",),
    "over_index": ("attribute",),
    "precision": ("name",),
    "sets": ("name",),
    "slices": ("text",),
    "spread": ("technique", "metric"),
    "spreads": ("technique", "metric"),
    "subgroups": ("metric", "group", "class"),
    "tests": ("rule", "metric", "group", "class"),
    "thresholds": ("percentile",),
}
# What of an identity has a part of its own in an address; all else is a condition.
PARTS = {
    "class": "class_name", "group": "group", "key": "group", "label": "class_name",
    "metric": "metric", "variant": "variant",
}  # fmt: skip
# Records of lists of one length, a list a column: what tells the records apart.
TABLES = {"lattice": "text", "taxicab": "distance"}
# Tests whose family of corruptions, slice or direction is told in words alone.
TOLD_BY_WORDS = {
    "mean_score", "overconfidence", "robustness_loss", "since_previous", "slices_hurt",
    "unnoticed_pictures",
}  # fmt: skip
# Keys that say nothing of what a number is.
SILENT = {"cells", "comparison", "comparisons", "flips", "slices", "tests", "variants"}
# Mapping whose keys are no variants: what they are.
KEYED = {"correlations": "technique"}


def rows_of(documents: Mapping[str, Any]) -> Rows:
    """Every number of what the commands wrote, by its address."""
    rows = _Collected()
    for name, content in documents.items():
        READERS[name.split()[0]](rows, content, name)
    return rows.rows


class _Collected:
    """Rows as they are found; an address that two files state must have one number."""

    def __init__(self) -> None:
        self.rows: Rows = {}

    def add(self, address: Address, field: str, value: Any) -> None:
        own = self.rows.setdefault(address, {})
        value = _plain(value)
        known = own.get(field)
        if known is not None and value is not None and known != value:
            both = f"two numbers for {field} of {address}: {known} and {value}"
            assert isinstance(known, float), both
            assert isinstance(value, float), both
            assert math.isclose(known, value, rel_tol=1e-9), both
        if value is not None or field not in own:
            own[field] = value if known is None else known


def _plain(value: Any) -> Value:
    if isinstance(value, bool):
        return str(value)
    if value in ("inf", "-inf"):  # as JSON spells them
        return float(value)
    if value is None or isinstance(value, str):
        return value
    return None if math.isnan(value) else float(value)


def _walk(rows: _Collected, node: Any, at: Address, path: str, variants: frozenset[str]) -> None:
    """Collect the numbers of a part of a document; `path` is where it is."""
    name = path.rpartition(".")[2]
    if isinstance(node, Mapping):
        if {"value", "low", "high", "level"} <= node.keys():
            for field in FIELDS:
                rows.add(at, field, node.get(field))
        elif name in TABLES:
            for own, record in _records(node, TABLES[name]):
                _walk(rows, record, _told_apart(at, own), "", variants)
        else:
            by_variant = node.keys() <= variants
            for key, part in node.items():
                if key in NO_RESULTS:
                    continue
                if by_variant:
                    _walk(rows, part, at._replace(variant=key), path, variants)
                elif name in KEYED:
                    _walk(rows, part, _told_apart(at, {KEYED[name]: key}), "", variants)
                else:
                    below = at if key in SILENT else _below(at, key)
                    _walk(rows, part, below, f"{path}.{key}", variants)
    elif isinstance(node, list | tuple):
        for place, part in enumerate(node):
            if isinstance(part, Mapping):
                keys = _identity(path)
                own = {key: part[key] for key in keys if part.get(key) is not None}
                others = {key: value for key, value in part.items() if key not in keys}
                _walk(rows, others, _told_apart(at, own), path, variants)
            elif not isinstance(part, str):
                _walk(rows, part, _below(at, str(place)), path, variants)
    elif not isinstance(node, str) or name in WORDS:
        rows.add(at, "value", node)


def _identity(path: str) -> tuple[str, ...]:
    """What tells the records of a list apart."""
    last_two = ".".join(path.split(".")[-2:])
    return IDENTITY[last_two] if last_two in IDENTITY else IDENTITY[path.rpartition(".")[2]]


def _below(at: Address, key: str) -> Address:
    return at._replace(what=f"{at.what}.{key}" if at.what else key)


def _told_apart(at: Address, own: Mapping[str, Any]) -> Address:
    """The address of one record."""
    conditions = [at.condition] if at.condition else []
    for key, value in own.items():
        text = f"{value:g}" if isinstance(value, int | float) else str(value)
        if key in PARTS and not getattr(at, PARTS[key]):
            at = at._replace(**{PARTS[key]: text})
        else:
            conditions.append(f"{key}={text}")
    return at._replace(condition=", ".join(conditions))


def _records(columns: Mapping[str, Any], key: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """The records of lists of one length, and what tells each apart; groups have their own."""
    for place, own in enumerate(columns[key]):
        record = {
            name: values[place]
            for name, values in columns.items()
            if name not in (key, "groups") and isinstance(values, list | tuple)
        }
        yield {key: own}, record
        for group in columns.get("groups", ()):
            yield {key: own, "group": group["group"]}, {"examples": group["examples"][place]}
    yield (
        {},
        {name: value for name, value in columns.items() if not isinstance(value, list | tuple)},
    )


def _audit(rows: _Collected, content: Mapping[str, Any], _: str) -> None:
    """audit.json."""
    variants = frozenset(variant["name"] for variant in content["variants"])
    for question, own in content["rows"].items():
        STORED[question](rows, question, own)
    _sizes(rows, content)
    for section, part in content.items():
        if section in NO_NUMBERS or section in ("level", "rows"):
            continue
        at = Address(QUESTIONS[section])
        if section == "variants":
            for own in part:
                numbers = {key: own[key] for key in ("members", "paired", "sparsity", "bits")}
                _walk(rows, numbers, at._replace(variant=own["name"]), section, variants)
        else:
            _walk(rows, part, at, section, variants)


def _row_address(question: str, row: Mapping[str, Any], *conditions: str) -> Address:
    """The address of a row of audit.json, without what it is."""
    own = [row.get(key) or "" for key in ("variant", "metric", "group", "class")]
    facts = row.get("facts", {})
    told = ", ".join(f"{key}={facts[key]}" for key in conditions if key in facts)
    return Address(question, *own, told)


# Facts of a row on corrupted pictures, in the order of its condition.
ROBUSTNESS = ("pictures", "measure", "matched", "family", "severity", "kind", "name")


def _estimate(rows: _Collected, at: Address, number: Mapping[str, Any]) -> None:
    for field in FIELDS:
        rows.add(at, field, number.get(field))


def _fairness(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Numbers of models of other seeds; a p-value or a mean has a value only."""
    for row in found:
        at = _row_address(question, row, "attribute")._replace(class_name="")
        what, value = row["what"], row["number"]["value"]
        of_class = what.endswith(" of class")
        if what == "mean":
            rows.add(at._replace(what="mean"), "value", value)
            rows.add(at._replace(what="members"), "value", len(row["models"]))
            for key, own in (("values", "models"), ("se", "models_se")):
                for place, one in enumerate(row.get(own, ())):
                    rows.add(at._replace(what=f"{key}.{place}"), "value", one)
        elif what in ("MaxDiff", "STDEV") or of_class:
            name = {"MaxDiff": "max_diff", "STDEV": "std"}[what.removesuffix(" of class")]
            rows.add(at._replace(what=f"{'class_' * of_class}{name}"), "value", value)
            if of_class:
                rows.add(at._replace(what="worst_class"), "value", row["class"])
        elif what == "sigma":
            _estimate(rows, at._replace(what="sigma"), row["number"])
        elif what in ("difference", "Cohen's d"):
            _estimate(rows, at._replace(what=f"compared.{OF_RUNS[what]}"), row["number"])
            if what == "Cohen's d":
                rows.add(at._replace(what="compared.effect"), "value", sawilowsky(_nan(value)))
        else:
            for protocol, names in BY_PROTOCOL.items():
                if what not in names:
                    continue
                own = at._replace(what=f"compared.{protocol}.{names[what]}")
                if names[what] == "spread_ratio":
                    _estimate(rows, own, row["number"])
                else:
                    rows.add(own, "value", value)
                    if protocol == "published":  # which adjusts nothing
                        rows.add(own._replace(what=f"{own.what}_adjusted"), "value", value)


def _impact(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Recall of each class; only what it loses beyond accuracy has an interval."""
    alone = {"dense": "dense_recall", "compressed": "compressed_recall", "p": "p"}
    for row in found:
        at, value = _row_address(question, row)._replace(metric=""), row["number"]["value"]
        if row["what"] == "beyond accuracy":
            _estimate(rows, at._replace(what="loss"), row["number"])
            for part, own in row["spread"].items():
                rows.add(at._replace(what=f"loss_variance.{part}"), "value", own)
        elif row["what"] == "p, adjusted":
            rows.add(at._replace(what="p_adjusted"), "value", value)
            significant = value is not None and value <= 1 - row["number"]["level"] + 1e-15
            rows.add(at._replace(what="significant"), "value", significant)
        else:
            rows.add(at._replace(what=alone[row["what"]]), "value", value)


def _gaps(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Rises of two groups and their difference; a p-value has a value only."""
    for row in found:
        at = _row_address(question, row, "attribute", "group_a", "group_b")
        at = at._replace(what=row["what"])
        if row["what"].startswith("p"):
            rows.add(at, "value", row["number"]["value"])
        else:
            _estimate(rows, at, row["number"])


def _accuracy(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Accuracy of a variant, and of each member."""
    for row in found:
        at = _row_address(question, row)._replace(what=row["what"])
        _estimate(rows, at, row["number"])
        for place, one in enumerate(row["models"]):
            rows.add(at._replace(what=f"members.{place}"), "value", one)


def _changes(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Shares of examples that change."""
    for row in found:
        what = "" if row["what"] == "flips" else row["what"]
        at = _row_address(question, row, "subset", "attribute")._replace(what=what)
        _estimate(rows, at, row["number"])
        for part, own in row.get("spread", {}).items():
            rows.add(at._replace(what=f"{what}_variance.{part}"), "value", own)


def _sizes(rows: _Collected, content: Mapping[str, Any]) -> None:
    """Examples of each group and subset whose shares are measured: counts of the file tell them."""
    sizes = {group["key"]: group["n"] for group in content["groups"]}
    for row in content["rows"].get("divergence", ()):
        counted = content["divergence"][row["variant"]]
        n, cies = counted["cie"]["n"], counted["cie"]["cie"]["count"]
        subsets = {"all": n, "CIEs": cies, "non-CIEs": n - cies}
        for one in counted["thresholds"]:
            subsets[f"taxicab {one['percentile']:g}"] = 0 if one["reason"] else one["wanted"]
        at = _row_address("divergence", row, "subset", "attribute")
        if row["what"] == "ledger.changed":
            rows.add(at._replace(what="ledger.n"), "value", sizes[row["group"]])
        elif row["what"] == "top1.dense":
            rows.add(at._replace(what="top1.n"), "value", subsets[row["facts"]["subset"]])


def _rates(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Rates of groups; the share without an answer is one more of them."""
    for row in found:
        at = _row_address("rates", row)._replace(what=row["what"])
        _estimate(rows, at, row["number"])
        for part, own in row.get("spread", {}).items():
            rows.add(at._replace(what=f"{row['what']}_variance.{part}"), "value", own)


def _clarify(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Metrics of labels and of predictions, of every member, and who is selected."""
    for row in found:
        at, what = _row_address(question, row, "split", *FACETS[:3]), row["what"]
        if row["metric"] == "selected":
            at = at._replace(metric="")
            if what in ("rate", "ratio"):
                _estimate(rows, at._replace(what=f"selection.{what}"), row["number"])
            else:
                name = {"examples": "n"}.get(what, what)
                rows.add(at._replace(what=f"selection.{name}"), "value", row["number"]["value"])
            if what == "ratio":
                own = standing(Quantity.model_validate(row["number"]))
                for key, value in zip(("standing", "certain"), own, strict=True):
                    rows.add(at._replace(what=f"selection.{key}"), "value", value)
            continue
        name = {"labels": "data.value"}.get(what, what)
        if row.get("variant") != "dense":  # whose means stand beside the compressed ones
            _estimate(rows, at._replace(what=name), row["number"])
        for key, own in (("values", "models"), ("se", "models_se")):
            for place, one in enumerate(row.get(own, ())):
                rows.add(at._replace(what=f"members.{key}.{place}"), "value", one)


def _labels(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Whole examples, and average precision of each label and of all."""
    for row in found:
        at, what = _row_address(question, row)._replace(metric=""), row["what"]
        if "metric" not in row:
            name = f"changed.{'cie' if what == 'CIEs' else what}"
        else:
            own = "labels.value" if "class" in row else "mean"
            last = {"average precision": own}.get(what, f"{'labels.' * ('class' in row)}{what}")
            name = f"average_precision.{last}"
        if what in ("CIEs", "positives"):
            rows.add(at._replace(what=name), "value", row["number"]["value"])
        else:
            _estimate(rows, at._replace(what=name), row["number"])


def _boxes(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """AP and AR."""
    for row in found:
        at = _row_address(question, row)._replace(metric="", condition=f"name={row['metric']}")
        _estimate(rows, at._replace(what=row["what"]), row["number"])


def _robustness(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Numbers on corrupted pictures; three scales of a loss say whether they disagree."""
    scales: dict[Address, list[float]] = {}
    bare = ("relative_robustness", "misled", "draw_variance", "p", "p_adjusted")
    for row in found:
        facts = row.get("facts", {})
        own = {key: facts[key] for key in ROBUSTNESS if key in facts}
        at = _row_address(question, row)
        part, _, what = row["what"].rpartition(".")
        if part == "confidence.detection" and "name" in own:
            own = {"pictures": own.pop("name"), **own}
        at = _told_apart(at, own)
        here = at._replace(what=row["what"].replace(".flips", ""))
        if what == "misled":
            rows.add(at._replace(what="losses.one_pair.misled"), "value", row["number"]["value"])
            rows.add(at._replace(what="losses.one_pair.pairs"), "value", row["number"]["n"])
        elif what.removeprefix("top5_") in bare:
            rows.add(here, "value", row["number"]["value"])
        else:
            _estimate(rows, here, row["number"])
        for key, value in row.get("spread", {}).items():
            rows.add(here._replace(what=f"{here.what}_variance.{key}"), "value", value)
        if part == "confidence.detection":
            other = at._replace(what="confidence.detection.other_set")
            rows.add(other, "value", "name" in facts)
        if what in ("absolute", "relative", "log_odds", "difference"):
            value = row["number"]["value"] if what != "difference" else 0.0
            scales.setdefault(at._replace(what=f"{part}.depends_on_scale"), []).append(value or 0.0)
    for at, values in scales.items():
        rows.add(at, "value", min(values) < 0 < max(values))


def _scores(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Means and quantiles; a p-value has a value only."""
    for row in found:
        here = _told_apart(_row_address(question, row), row.get("facts", {}))._replace(
            what=row["what"]
        )
        if row["what"] == "means.p_adjusted":
            rows.add(here, "value", row["number"]["value"])
        else:
            _estimate(rows, here, row["number"])
        for place, one in enumerate(row.get("models", ())):
            rows.add(here._replace(what=f"members.{place}"), "value", one)
        for key, value in row.get("spread", {}).items():
            if row["what"] != "means.worse":  # whose spread is that of the change
                rows.add(here._replace(what=f"{row['what']}_variance.{key}"), "value", value)


def _slices(rows: _Collected, question: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Slices that a search reports; a p-value has a value only, and n of the test that gave it."""
    for row in found:
        at = _told_apart(_row_address(question, row), row.get("facts", {}))
        what = row["what"].removeprefix("slices.")
        test, _, of_test = what.rpartition(".")
        if not test:
            _estimate(rows, at._replace(what=what), row["number"])
            continue
        own = {what: row["number"]["value"], f"{test}.size": row["number"]["n"]}
        for key, value in own.items():
            rows.add(at._replace(what=key), "value", value)
        rows.rows[at._replace(what=of_test)] = {"value": row["number"]["value"]}  # the last decided


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _gate(rows: _Collected, content: Mapping[str, Any], _: str) -> None:
    """gate.json, or the verdict that a comparison prints."""
    at = Address("verdict")
    for key in ("verdict", "exit_code", "variants_tried"):
        rows.add(at._replace(what=key), "value", content[key])
    for own in content["variants"]:
        of_variant = at._replace(variant=own["name"])
        for key in ("verdict", "members", "top1", "cies"):
            rows.add(of_variant._replace(what=key), "value", own[key])
        rows.add(of_variant._replace(what="too_small"), "value", len(own["too_small"]))
        for test in own["tests"]:
            identity = {key: test[key] for key in IDENTITY["tests"] if test[key] is not None}
            if test["metric"] in TOLD_BY_WORDS:
                identity["where"] = test["where"]
            level = test.get("level") or {}
            identity |= {key: level[key] for key in ("attribute", "side") if key in level}
            others = {
                key: value
                for key, value in test.items()
                if key not in (*IDENTITY["tests"], "waived")
            }
            _walk(rows, others, _told_apart(of_variant, identity), "", frozenset())


def _numbers(rows: _Collected, table: pl.DataFrame, _: str) -> None:
    """numbers.parquet: of rates the addresses are those of audit.json."""
    asked = pl.col("question").is_in(["rates", "unanswered"])
    for record in table.filter(asked).iter_rows(named=True):
        what = record["what"]
        parts = ("variant", "metric", "group", "class", "condition")
        at = Address("rates", *(record[key] or "" for key in parts), what)
        record["members"] = record["models"]
        for field in FIELDS:
            rows.add(at, field, record[field])
        for key, value in record.items():
            if key.startswith("variance_") and value is not None:
                part = key.removeprefix("variance_")
                rows.add(at._replace(what=f"{what}_variance.{part}"), "value", value)


def _divergence(rows: _Collected, table: pl.DataFrame, _: str) -> None:
    """divergence.parquet: sums over the examples."""
    numbers = [
        name for name, kind in table.schema.items() if kind.is_numeric() or kind == pl.Boolean
    ]
    for (variant,), frame in table.group_by("variant", maintain_order=True):
        at = Address("divergence", str(variant))
        for name in numbers:
            total = frame[name].cast(pl.Float64).sum()
            rows.add(at._replace(what=f"sum of {name}"), "value", total)


def _comparison(rows: _Collected, content: Mapping[str, Any], _: str) -> None:
    """What `compare --json` prints."""
    for own in content["comparisons"]:
        at = Address("comparison", own["models"][1])
        others = {key: value for key, value in own.items() if key not in ("models", "metric")}
        floor = {"floor": None} if others.get("floor") is None else {"seed noise": others["floor"]}
        others.pop("floor", None)
        _walk(rows, others | floor, at, "", frozenset())
    if content.get("gate"):
        _gate(rows, content["gate"], "gate")


def _any(rows: _Collected, content: Mapping[str, Any], name: str) -> None:
    """What another command prints."""
    others = {key: value for key, value in content.items() if key not in ("version", "protocol")}
    _walk(rows, others, Address(name), name, frozenset())


# What a row of training runs is called: once for both protocols, or in that of its protocol.
OF_RUNS = {
    "difference": "difference", "Cohen's d": "cohens_d", "mean": "mean",
    "single-run risk": "single_run_risk", "MaxDiff": "spread.max_diff", "STDEV": "spread.std",
    "sigma": "spread.sigma",
}  # fmt: skip
BY_PROTOCOL = {
    "sound": {
        "U p": "u_p", "U p, adjusted": "u_p_adjusted", "raw Levene p": "levene_p",
        "raw Levene p, adjusted": "levene_p_adjusted", "raw spread": "spread_ratio",
    },
    "published": {
        "one-sided U p": "u_p", "relative Levene p": "levene_p", "relative spread": "spread_ratio",
    },
}  # fmt: skip
FORMS = {"sound": "raw", "published": "relative"}


def _of_runs(rows: _Collected, content: Mapping[str, Any], name: str) -> None:
    """What `compare --techniques --json` prints, with and without `--raw`."""
    question, contest = name, name == "tournament"
    protocols = list(FORMS) if contest else [content["protocol"]]
    values: dict[tuple[str, str], list[float]] = {}
    for run in content.get("runs", ()):
        values.setdefault((run["technique"], run["metric"]), []).append(run["value"])
    for row in content["rows"]:
        technique, base = row["group"], (row["condition"] or "").removeprefix("against=")
        told = {"technique": technique, "baseline": base if contest else ""}
        condition = ", ".join(f"{key}={own}" for key, own in told.items() if own)
        accuracy = row["question"] == "accuracy"
        at = Address(question, "", "" if accuracy else row["metric"], "", "", condition)
        start = "accuracy." if accuracy else {"spread": "spreads."}.get(row["question"], "")
        if not contest:
            start = "spread." if row["question"] == "spread" else ""
        names = [OF_RUNS[row["what"]]] if row["what"] in OF_RUNS else []
        if names and contest and row["what"] in ("difference", "Cohen's d"):
            names = [f"{form}.{names[0]}" for form in FORMS.values()]
        for protocol in protocols:
            own = BY_PROTOCOL[protocol].get(row["what"])
            if own is not None:
                names.append(f"{FORMS[protocol]}.{own}" if contest else own)
            if own in ("u_p", "levene_p") and protocol == "published":
                names += [f"{one}_adjusted" for one in names[-1:] if not contest or own == "u_p"]
        if contest and row["what"] == "relative Levene p, adjusted":
            names.append("relative.levene_p_adjusted")
        for own in names:
            where = at._replace(what=start + own)
            rows.add(where, "value", row["value"])
            if row["low"] is not None:
                for field in FIELDS:
                    rows.add(where, field, row[{"members": "models"}.get(field, field)])
    for where in ("cells", "accuracy"):
        for cell in content.get(where, ()):
            condition = f"technique={cell['technique']}, baseline={cell['baseline']}"
            start = "accuracy." if where == "accuracy" else ""
            metric = "" if start else cell["metric"]
            at = Address(question, "", metric, "", "", condition)
            texts = {"mean_moves": cell["mean_moves"], "spread_moves": cell["spread_moves"]}
            texts |= {f"{form}.effect": cell["effect"] for form in FORMS.values()}
            if not start:
                texts["verdict"] = cell["verdict"]
                for key, of in (("values", "technique"), ("baseline_values", "baseline")):
                    for run, value in enumerate(values[cell[of], cell["metric"]]):
                        rows.add(at._replace(what=f"{key}.{run}"), "value", value)
            for what, text in texts.items():
                rows.add(at._replace(what=start + what), "value", text)
    kept = {key: content[key] for key in ("totals", "published_totals", "correlations")
            if key in content}  # fmt: skip
    _any(rows, kept, name)


# Question whose numbers are rows of audit.json: how they are read.
STORED: Mapping[str, Callable[[_Collected, str, Any], None]] = {
    "accuracy": _accuracy, "boxes": _boxes, "clarify": _clarify, "divergence": _changes,
    "fairness": _fairness, "gaps": _gaps, "impact": _impact, "labels": _labels, "rates": _rates,
    "robustness": _robustness, "scores": _scores, "slices": _slices, "unanswered": _rates,
}  # fmt: skip
READERS: Mapping[str, Callable[[_Collected, Any, str], None]] = {
    "audit": _audit, "gate": _gate, "numbers": _numbers, "divergence": _divergence,
    "bias": _any, "comparison": _comparison, "slices": _any, "variance": _of_runs,
    "tournament": _of_runs,
}  # fmt: skip
