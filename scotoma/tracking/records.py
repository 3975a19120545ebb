"""What MLflow is to hold of an audit: names, numbers and tags, from audit.json and manifests."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scotoma._version import __version__
from scotoma.printable import printable
from scotoma.summary import worst_change

__all__ = ["Record", "member_records", "metric_names", "variant_records"]

NAME_LENGTH = 100  # the server takes 250, with section and prefix
TEXT_LENGTH = 5000  # of a tag; the server takes 8000
POINTS = 100  # small differences: a chart prints two decimals, and a fraction of 0.003 as 0.00
NOTE = "mlflow.note.content"

# Of the runs of one variant, dense first. MLflow's own go by the run's id: two of three are alike
# now and then. Okabe and Ito (2008) chose these for eyes that take red for green.
DENSE_COLOUR = "#595959"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")


@dataclass
class Record:
    """What one MLflow run holds.

    Attributes:
        name: Name of the run.
        identity: The tags that say which run it is.
        tags: Name to text, as found: `texts` has them as they are written.
        params: Name to number or word.
        metrics: Name, value and step.
        examples: Number of examples of each split that it rests on.

    >>> record = Record("dense", ("variant",), {"variant": "dense"}, {})
    >>> record.number("top1", 0.9), record.number("2_cie/share", None, "no examples")
    (True, False)
    >>> record.metrics, record.tags
    ([('top1', 0.9, 0)], {'variant': 'dense', 'undefined/2_cie/share': 'no examples'})
    """

    name: str
    identity: tuple[str, ...]
    tags: dict[str, str]
    params: dict[str, Any]
    metrics: list[tuple[str, float, int]] = field(default_factory=list)
    examples: dict[str, int] = field(default_factory=dict)

    def key(self, tags: Mapping[str, str] | None = None) -> tuple[str | None, ...]:
        """What says which run it is; of other tags, which run they are of."""
        found = self.tags if tags is None else tags
        return tuple(found.get(name) for name in self.identity)

    def texts(self) -> dict[str, str]:
        """The tags, with a space for whatever could steer a terminal or break a database."""
        lines = {
            key: text.split("\n") if key == NOTE else [text] for key, text in self.tags.items()
        }
        return {key: "\n".join(map(printable, found))[:TEXT_LENGTH] for key, found in lines.items()}

    def number(self, name: str, value: Any, reason: str = "") -> bool:
        """A metric; where there is no finite number, a tag that says why."""
        if _finite(value):
            self.metrics.append((name, float(value), 0))
            return True
        self.tags[f"undefined/{name}"] = reason or f"undefined ({value})"
        return False

    def estimate(self, name: str, found: Mapping[str, Any], factor: int = 1) -> None:
        """An estimate times a factor: its value a metric, its interval a tag."""
        value, low, high = (
            factor * found[key] if _finite(found[key]) else found[key]
            for key in ("value", "low", "high")
        )
        if self.number(name, value, found["reason"]):
            rests = f"n={found['n']}"
            self.tags[f"interval/{name}"] = (
                f"none, {rests}: {found['reason']}"
                if low is None or high is None
                else f"[{float(low):.6g}, {float(high):.6g}] {rests}"
            )


def variant_records(
    audit: Mapping[str, Any], recipe: Mapping[str, Any], gate: Mapping[str, Any] | None = None
) -> list[Record]:
    """A record a variant, dense last: the run that is logged last is listed first.

    Args:
        audit: Content of audit.json.
        recipe: What trained the dense members, name to value.
        gate: The verdict on it, as gate.json has it, with sentences as `said`; None for none.

    Returns:
        Numbers by section: `0_gate/failed` and `0_gate/unsure` (tests), `1_quality/...`,
        `2_cie/...`, `3_worst/METRIC` (the change that the summary calls worst), `5_slices/n_bad`
        (slices found), `amp_METRIC/GROUP` (relative change, %), `gap_points/ATTRIBUTE`.

    >>> top1 = {"value": 0.9, "low": 0.88, "high": 0.92, "n": 500, "reason": ""}
    >>> dense = {"name": "dense", "kind": "dense", "sparsity": 0.0, "bits": 32, "paired": False}
    >>> (record,) = variant_records({
    ...     "config_sha256": "c0", "seed": 7, "variants": [dense | {"members": 10}],
    ...     "examples": {"train": 1000, "test": 500, "dataset_sha256": "d0"},
    ...     "accuracy": {"dense": {"top1": top1}}, "divergence": {}}, {"steps": 40})
    >>> record.metrics, record.tags["interval/1_quality/top1"], record.params["recipe.steps"]
    ([('1_quality/top1', 0.9, 0)], '[0.88, 0.92] n=500', 40)
    """
    return [_variant(audit, recipe, name, gate) for name in reversed(_variant_names(audit))]


def member_records(
    audit: Mapping[str, Any],
    recipe: Mapping[str, Any],
    manifests: Mapping[str, Mapping[str, Any]],
) -> list[Record]:
    """A record a member: seed, recipe, digest of the weights, loss curve, top-1.

    Args:
        audit: Content of audit.json.
        recipe: What trained the dense members, name to value; a member's own goes before it.
        manifests: Variant to the content of its population's manifest.

    Returns:
        Records in the order of the variants, dense first, and of their members.

    >>> dense = {"name": "dense", "kind": "dense", "sparsity": 0.0, "bits": 32}
    >>> audit = {"config_sha256": "c0", "examples": {"dataset_sha256": "d0"}, "variants": [dense],
    ...          "accuracy": {"dense": {"members": [0.9]}}}
    >>> member = {"index": 0, "seed": 7, "sha256": "a0", "loss": [2.0, 0.5]}
    >>> (record,) = member_records(audit, {"steps": 40}, {"dense": {"members": [member]}})
    >>> record.name, record.metrics
    ('dense-000', [('top1', 0.9, 0), ('loss', 2.0, 4), ('loss', 0.5, 8)])
    """
    return [
        _member(audit, recipe, name, member, top1)
        for name in _variant_names(audit)
        for member, top1 in zip(
            manifests[name]["members"], audit["accuracy"][name]["members"], strict=True
        )
    ]


def metric_names(keys: Iterable[str]) -> dict[str, str]:
    """Names that MLflow takes as the last part of a metric's, one a key, no two the same.

    Plain keys stay readable. Where characters had to go, a name is too long, or two differ in case
    only (which some databases do not see), a digest of the key is appended.

    Args:
        keys: Group keys or attribute names, any text.

    Returns:
        Key to name, of characters in [A-Za-z0-9_.-].

    >>> metric_names(["sex.male", "sex.male & age.old"])
    {'sex.male': 'sex.male', 'sex.male & age.old': 'sex.male_and_age.old'}
    >>> list(metric_names(["sex.male/old", "sex.male?old"]).values())
    ['sex.male_old.0df1d1f1247e', 'sex.male_old.e2ffb95120fe']
    """
    readable = {key: "_and_".join(key.split(" & ")) for key in dict.fromkeys(keys)}
    seen = Counter(name.casefold() for name in readable.values())
    return {
        key: name
        if seen[name.casefold()] == 1
        and len(name) <= NAME_LENGTH
        and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)
        and not re.search(r"\.[0-9a-f]{12}$", name)
        else _digested(key, name)
        for key, name in readable.items()
    }


def _digested(key: str, name: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[: NAME_LENGTH - 20].strip("._-")
    return f"{stem or 'group'}.{_sha256(key)[:12]}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _variant_names(audit: Mapping[str, Any]) -> list[str]:
    """Dense first, then in the order of the audit."""
    return [v["name"] for v in sorted(audit["variants"], key=lambda v: v["kind"] != "dense")]


def _facts(
    audit: Mapping[str, Any], recipe: Mapping[str, Any], name: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters and tags that a variant shares with its members; numbers stay comparable."""
    variant = next(found for found in audit["variants"] if found["name"] == name)
    place = _variant_names(audit).index(name)
    params = {
        "sparsity": variant["sparsity"],
        "bits": variant["bits"],
        "kind": variant["kind"],
        **{f"recipe.{key}": value for key, value in recipe.items()},
    }
    tags = {
        "scotoma.audit": audit["config_sha256"],
        "scotoma.variant": name,
        "scotoma.version": __version__,
        "scotoma.dataset": audit["examples"]["dataset_sha256"],
        "mlflow.runColor": COLOURS[(place - 1) % len(COLOURS)] if place else DENSE_COLOUR,
        "mlflow.source.name": "scotoma",
        "mlflow.source.type": "LOCAL",
    }
    return params, tags


def _variant(
    audit: Mapping[str, Any], recipe: Mapping[str, Any], name: str, gate: Mapping[str, Any] | None
) -> Record:
    """Everything that the run of a variant holds."""
    params, tags = _facts(audit, recipe, name)
    result = audit if gate is None else [audit, gate]  # judged otherwise it is another result
    variant = next(found for found in audit["variants"] if found["name"] == name)
    record = Record(
        name=name,
        identity=("scotoma.variant", "scotoma.result"),
        tags=tags | {"scotoma.result": _sha256(json.dumps(result, sort_keys=True))},
        params=params
        | {
            "n_models": variant["members"],
            "seed": audit["seed"],
            "paired": str(variant["paired"]).lower(),
        },
        examples={split: audit["examples"][split] for split in ("train", "test")},
    )
    top1 = audit["accuracy"][name]["top1"]
    record.estimate("1_quality/top1", top1)
    note = [f"**{_markdown(name)}**: {variant['members']} models", ""]
    note += [] if gate is None else _verdict(record, gate, name)
    note.append(f"- top-1 {_shown(top1, 100, '%')}")
    if divergence := audit["divergence"].get(name):
        cie = divergence["cie"]
        count = cie["cie"]
        record.estimate("2_cie/share", cie["cie_share"])
        record.estimate("2_cie/excess_points", cie["excess"], POINTS)
        record.number("2_cie/count", count["count"])
        record.tags["interval/2_cie/count"] = (
            f"[{count['low']}, {count['high']}] n={cie['n']}: the range over {count['ties']} ties"
        )
        note.append(
            f"- CIEs: {count['count']:,} of {cie['n']:,} examples, "
            f"{_shown(cie['excess'], 100, ' points')} beyond the floor"
        )
        note += _groups(record, audit, name)
        _gaps(record, audit["gaps"].get(name, []))
        note += _slices(record, audit.get("slices", {}).get(name))
    record.tags[NOTE] = "\n".join(note)
    return record


def _verdict(record: Record, gate: Mapping[str, Any], name: str) -> list[str]:
    """Put the verdict into the record, on the dense run that of all; returns what its note says."""
    judged = next((variant for variant in gate["variants"] if variant["name"] == name), None)
    if judged is None:
        record.tags["scotoma.verdict"] = gate["verdict"]
        found = [
            f"{variant['verdict']} {_markdown(variant['name'])}" for variant in gate["variants"]
        ]
        return [f"- gate: {gate['verdict']} ({', '.join(found)})"]
    counted = [test["verdict"] for test in judged["tests"] if test["waived"] is None]
    record.number("0_gate/failed", counted.count("FAIL"))
    record.number("0_gate/unsure", counted.count("UNSURE"))
    record.tags["scotoma.verdict"] = judged["verdict"]
    return [f"- gate: {judged['verdict']}", *(f"  - {_markdown(line)}" for line in judged["said"])]


def _slices(record: Record, found: Mapping[str, Any] | None) -> list[str]:
    """Put the number of slices into the record; returns what its note says of them."""
    if found is None:
        return []
    record.number("5_slices/n_bad", found["found"])
    record.tags["interval/5_slices/n_bad"] = f"n={found['tested']}: {found['null']['sentence']}"
    return [f"- slices: {_markdown(found['summary'])}"]


def _groups(record: Record, audit: Mapping[str, Any], name: str) -> list[str]:
    """Put the changes of groups into the record; returns what its note says of them."""
    rows = [row for row in audit["subgroups"].get(name, []) if row["class"] is None]
    # Named over all variants: the same group has the same name in every run.
    names = metric_names(r["group"] for found in audit["subgroups"].values() for r in found)
    for row in rows:
        record.estimate(f"amp_{row['metric']}/{names[row['group']]}", row["relative"])
    record.tags |= {f"group/{short}": key for key, short in names.items() if short != key}
    note = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        worst, found = f"3_worst/{metric}", worst_change(audit, name, metric)
        if found is None:
            record.number(worst, None, "undefined (no change of a group has an interval)")
            continue
        record.estimate(worst, found["relative"])
        record.tags[f"group/{worst}"] = found["group"]
        shown = _shown(found["relative"], 1, "%")
        note.append(f"- worst change of {metric}: {shown} in {_markdown(found['group'])}")
    return note


def _gaps(record: Record, rows: Iterable[Mapping[str, Any]]) -> None:
    """One contrast an attribute of two values; each value against the rest where there are more."""
    rows = list(rows)
    contrasts = Counter((row["attribute"], row["metric"]) for row in rows)
    keys = []
    for row in rows:
        attribute, group = row["attribute"], row["group_b"]
        if contrasts[attribute, row["metric"]] == 1:
            keys.append(attribute)
        else:  # an attribute may be called as another's group is
            keys.append(f"{attribute} = {group}" if (group, row["metric"]) in contrasts else group)
    names = metric_names(keys)
    for row, key in zip(rows, keys, strict=True):
        metric = "" if row["metric"] == "error" else f"{row['metric']}_"
        name = f"gap_{metric}points/{names[key]}"
        record.estimate(name, row["gap"], POINTS)
        record.tags[f"group/{name}"] = f"{row['group_b']} against {row['group_a']}"


def _member(
    audit: Mapping[str, Any],
    recipe: Mapping[str, Any],
    name: str,
    member: Mapping[str, Any],
    top1: float | None,
) -> Record:
    """Everything that the run of a member holds."""
    params, tags = _facts(audit, {**recipe, **member.get("recipe", {})}, name)
    record = Record(
        name=f"{name}-{member['index']:03d}",
        identity=("scotoma.variant", "scotoma.member", "scotoma.weights"),
        tags=tags | {"scotoma.member": str(member["index"]), "scotoma.weights": member["sha256"]},
        params=params | {"seed": member["seed"]},
    )
    if "paired_with" in member:
        record.tags["scotoma.paired_with"] = member["paired_with"]["sha256"]
    record.number("top1", top1)
    # A point of the curve is the mean over a tenth of the steps, up to the step it stands at.
    for point, loss in enumerate(member.get("loss", []), start=1):
        if _finite(loss):
            tenth = max(1, int(member.get("steps") or record.params["recipe.steps"]) // 10)
            record.metrics.append(("loss", loss, point * tenth))
    return record


def _markdown(text: str) -> str:
    """A name that is nothing but its letters in Markdown and HTML: the rest becomes entities."""
    return "".join(c if c.isalnum() or c in " -" else f"&#{ord(c)};" for c in printable(text))


def _shown(found: Mapping[str, Any], factor: float, unit: str) -> str:
    """An estimate in words."""
    value, low, high = found["value"], found["low"], found["high"]
    if not _finite(value):
        return _markdown(found["reason"] or "undefined")
    interval = (
        ""
        if low is None or high is None
        else f" [{factor * float(low):.1f}, {factor * float(high):.1f}]"
    )
    return f"{factor * value:.1f}{unit}{interval}"
