"""Whole audits and verdicts from the few numbers that a test is about."""

from __future__ import annotations

import datetime
import functools
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from scotoma.audit import Audit, GateFile
from scotoma.audit.base import Part
from scotoma.audit.document import VERSION
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import GateRules, default_rules
from scotoma.verdict import gate as gates

__all__ = [
    "accuracy",
    "addresses",
    "changes",
    "class_rows",
    "filled",
    "gate_file",
    "judge",
    "previous",
    "rate_rows",
    "rates",
    "rows_at",
    "whole",
]

# Records of tests, by variant: the question whose rows they are, an address a record.
RECORDS = {"subgroups": "rates", "unanswered": "unanswered"}
# Of records on how examples change, by variant: parts that are rows, and what tells them apart.
CHANGED = {"top1": "subset", "over_index": "attribute", "ledger": "group"}
CIE = ("cie_share", "floor", "disagreement", "excess")
RATE = ("dense", "compressed", "relative", "absolute")


def whole(content: dict[str, Any]) -> Audit:
    """An audit with whatever its content leaves out: zeros, empty texts, nothing measured.

    Rates may be records by variant, `subgroups` and `unanswered`, as `rates` gives them; so may
    `accuracy`, as `accuracy` gives it, and `divergence`, as `changes` gives it.
    """
    variants = content.get("variants") or [{"name": "dense"}]
    names = [variant["name"] for variant in variants]
    known = {variant["name"]: variant for variant in variants}
    defaults: dict[str, Any] = {
        "version": VERSION,
        "scope": "population",
        "level": 0.95,
        "groups": [{"key": "all", "name": "all"}],
        "variants": variants,
    }
    merged = defaults | {key: part for key, part in content.items() if key not in RECORDS}
    records = {
        question: [row for name, own in content[key].items() for row in rate_rows(name, own)]
        for key, question in RECORDS.items()
        if key in content
    }
    merged["rows"] = {**content.get("rows", {}), **records}
    if "accuracy" in merged or "accuracy" not in merged["rows"]:
        merged["rows"]["accuracy"] = [
            {
                "variant": name, "what": "top1", "number": one.get("top1", {}),
                "models": one.get("members", [0.9] * known[name].get("members", 1)),
            }
            for name, one in merged.pop("accuracy", {key: {} for key in names}).items()
        ]  # fmt: skip
    if "divergence" in merged or "divergence" not in merged["rows"]:
        of_changes = {key: {} for key in names[1:]} | merged.get("divergence", {})
        held = merged["rows"].get("divergence", [])
        merged["divergence"] = {}
        merged["rows"]["divergence"] = [*held]
        for name, one in of_changes.items():
            merged["divergence"][name] = header(one)
            if not any(row["variant"] == name for row in held):
                merged["rows"]["divergence"] += change_rows(name, one)
    known_keys = {group["key"] for group in merged["groups"]}
    rows = [row for rows in merged["rows"].values() for row in rows]
    for key in dict.fromkeys(row.get("group") for row in rows):
        if key is not None and key not in known_keys:
            merged["groups"] = [*merged["groups"], {"key": key, "name": key}]
            known_keys.add(key)
    merged["gallery"] = {key: [] for key in names[1:]} | dict(content.get("gallery", {}))
    return Audit.model_validate(filled(Audit, merged))


def rows_at(address: dict[str, Any], numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one address, as audit.json has them: what each is, and an estimate or its value."""
    whole = {
        what: one if isinstance(one, dict) else {"value": one} for what, one in numbers.items()
    }
    return [address | {"what": what, "number": number} for what, number in whole.items()]


def class_rows(
    variant: str, name: str, numbers: dict[str, Any], variance: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Rows of the recall of one class, whose loss has a variance."""
    rows = rows_at({"variant": variant, "metric": "recall", "class": name}, numbers)
    for row in rows:
        if row["what"] == "beyond accuracy":
            row["spread"] = variance
    return rows


def addresses(audit: Any, question: str, **known: Any) -> list[dict[str, Any]]:
    """Rows of audit.json by what they are, address by address, those with what is known of them."""
    found: dict[str, dict[str, Any]] = {}
    for row in audit["rows"].get(question, ()):
        told = row | row.get("facts", {})
        if all(told.get(name) == value for name, value in known.items()):
            at = {key: row.get(key) for key in ("variant", "metric", "group", "class", "facts")}
            found.setdefault(str(at), at | row.get("facts", {}))[row["what"]] = row
    return list(found.values())


def rate_rows(variant: str, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of rates, a record each: its address, numbers, and variances."""
    return [
        {
            "variant": variant, "metric": one.get("metric", "error"), "group": one["group"],
            "class": one.get("class"), "what": what, "number": one.get(what, {}),
            **({"spread": one.get(f"{what}_variance", {})} if what in RATE[2:] else {}),
        }
        for one in records
        for what in RATE
    ]  # fmt: skip


def header(record: dict[str, Any]) -> dict[str, Any]:
    """What of a record on how examples change is no row."""
    cie = {key: own for key, own in record.get("cie", {}).items() if key.removesuffix("_variance")
           not in CIE}  # fmt: skip
    over = [
        {key: own for key, own in one.items() if key != "change"}
        for one in record.get("over_index", ())
    ]
    others = {key: own for key, own in record.items() if key not in ("flips", "top1", "ledger")}
    return others | {"cie": cie, "over_index": over}


def change_rows(variant: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a record on how examples change: CIEs, flips, subsets, groups."""
    address, cie = {"variant": variant}, record.get("cie", {})
    rows = rows_at(address, {f"cie.{what}": cie.get(what, {}) for what in CIE})
    rows[-1]["spread"] = cie.get("excess_variance", {})
    if record.get("flips") is not None:
        rows += rows_at(address, {"flips": record["flips"]})
    for part, key in CHANGED.items():
        for one in record.get(part, ()):
            facts = {"group": one[key]} if key == "group" else {"facts": {key: one[key]}}
            numbers = {f"{part}.{what}": own for what, own in one.items() if isinstance(own, dict)}
            rows += rows_at(address | facts, numbers)
    return rows


def accuracy(audit: Any, variant: str) -> dict[str, Any]:
    """Accuracy of a variant in audit.json: that of the population, and of its members."""
    (row,) = (row for row in audit["rows"]["accuracy"] if row["variant"] == variant)
    return {"top1": row["number"], "members": row["models"]}


def changes(audit: Any, variant: str) -> dict[str, Any]:
    """How examples change in audit.json, of one variant: counts and numbers, as one record."""
    found = audit["divergence"][variant]
    record: dict[str, Any] = found | {"cie": {**found["cie"]}, "flips": None}
    record |= {part: [] for part in CHANGED if part != "over_index"}
    for at in addresses(audit, "divergence", variant=variant):
        numbers = {what: own["number"] for what, own in at.items() if "." in what}
        if "flips" in at:
            record["flips"] = at["flips"]["number"]
        for what, own in numbers.items():
            if what.startswith("cie."):
                record["cie"][what.removeprefix("cie.")] = own
        for part, key in CHANGED.items():
            own = {w.removeprefix(f"{part}."): n for w, n in numbers.items() if w.startswith(part)}
            if own and part == "over_index":
                (one,) = (one for one in found[part] if one[key] == at[key])
                record[part] = [n | own if n is one else n for n in record[part]]
            elif own:
                record[part].append({key: at[key]} | own)
    return record


def rates(audit: Any, variant: str, question: str = "rates") -> list[dict[str, Any]]:
    """Rates of audit.json of one variant, as records: address, numbers, and variances."""
    return [
        {key: at[key] for key in ("group", "metric", "class")}
        | {what: at[what]["number"] for what in RATE}
        | {f"{what}_variance": at[what]["spread"] for what in RATE[2:]}
        for at in addresses(audit, question, variant=variant)
    ]


def judge(
    content: dict[str, Any],
    rules: GateRules,
    as_of: datetime.date,
    before: PreviousAudit | None = None,
) -> GateFile:
    """The verdict on the audit that `whole` makes of some content."""
    return gates.judge(whole(content), rules, as_of, before)


def previous(content: dict[str, Any], of: str = "before", sha256: str = "") -> PreviousAudit:
    """The audit that `whole` makes of some content, as the one before another."""
    return PreviousAudit(audit=Comparable.of(whole(content)), of=of, sha256=sha256)


def gate_file(content: dict[str, Any]) -> GateFile:
    """A verdict with whatever its content leaves out."""
    defaults = {"verdict": "PASS", "as_of": "2027-03-01"}
    return GateFile.model_validate(filled(GateFile, defaults | content))


def filled(kind: Any, content: Any) -> Any:
    """Content of a type with every key that it leaves out, of parts and their parts too."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return filled(inner[0], content)
    if origin in (Union, types.UnionType):
        return None if content is None else filled(inner[0], content)
    if origin is tuple:
        return [filled(inner[0], item) for item in content]
    if origin is dict:
        return {key: filled(inner[1], item) for key, item in content.items()}
    if isinstance(kind, type) and issubclass(kind, Part) and isinstance(content, dict):
        whole = {key: value for key, value in content.items() if key != "class_id"}
        for key, annotation, required in _fields(kind):
            if key in content:
                whole[key] = filled(annotation, content[key])
            elif required:
                whole[key] = 0.95 if key == "level" else _empty(annotation)
        return whole
    return content


@functools.cache
def _fields(kind: type[Part]) -> list[tuple[str, Any, bool]]:
    """Key, type and whether it must be there, of every field of a part."""
    return [
        (field.alias or name, field.annotation, field.is_required())
        for name, field in kind.model_fields.items()
    ]


def _empty(kind: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _empty(inner[0])
    if origin in (Union, types.UnionType) and type(None) in inner:
        return None
    if origin is Literal:
        return inner[0]
    if origin is tuple:
        return []
    if origin is dict:
        return {}
    if isinstance(kind, type) and issubclass(kind, Part):
        return filled(kind, {})
    if kind is GateRules:
        return default_rules(positive=False).model_dump(mode="json")
    return {int: 0, float: 0.0, str: "", bool: False}[kind]
