"""What each section of the page shows: rows chosen from the audit and put in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scotoma.report.images import Album
from scotoma.report.marks import Scale, scale_of
from scotoma.report.numbers import from_class, mirrored
from scotoma.uncertainty import ONE_RUN

__all__ = ["context"]

Row = dict[str, Any]

METRICS = {"error": "Error", "fpr": "False positive rate", "fnr": "False negative rate"}
MOST_CLASSES = 60  # rows of a table of classes; more are cut in the middle
MOST_RATES = 120  # rows of a table of classes by groups
MOST_CLASS_NAMES = 20  # class names listed at the top
FEW_MEMBERS = 5  # below it CIE counts are unstable


def context(audit: Mapping[str, Any], images: Mapping[str, bytes]) -> dict[str, Any]:
    """All that the templates read.

    Args:
        audit: The content of audit.json.
        images: Encoded images by example id.

    Returns:
        Names and values; nothing depends on the order of keys in `audit`.
    """
    audit = _readable(audit)
    dense = next(variant for variant in audit["variants"] if variant["kind"] == "dense")
    compressed = [v for v in audit["variants"] if v["kind"] != "dense"]
    subgroups = {v["name"]: _rates(audit, v["name"]) for v in compressed}
    classes = {v["name"]: _classes(audit, v["name"]) for v in compressed}
    return {
        "audit": audit,
        "dense": dense,
        "compressed": [{**v, "slug": f"v{i}"} for i, v in enumerate(compressed, 1)],
        "opened": min(compressed, key=lambda v: v["bits"] * (1 - v["sparsity"]))["name"],
        "clustered": audit["examples"]["units"] != audit["examples"]["test"],
        "unstable": min(v["members"] for v in audit["variants"]) < FEW_MEMBERS,
        "few_members": FEW_MEMBERS,
        "one_run": f"{ONE_RUN[0].upper()}{ONE_RUN[1:]}.",
        "metrics": METRICS,
        "class_names": audit["examples"]["classes"][:MOST_CLASS_NAMES],
        "half_sizes": sorted({d["cie"]["half_size"] for d in audit["divergence"].values()}),
        "subgroups": subgroups,
        "rates_by_class": {
            v["name"]: _rates_by_class(audit, v["name"], classes[v["name"]]) for v in compressed
        },
        "classes": {name: _cut(rows) for name, rows in classes.items()},
        "gallery": _gallery(audit, [v["name"] for v in compressed], Album(images)),
        "slices": audit.get("slices", {}),
        "subset_name": _subset_name,
        "largest_beyond_zero": _largest_beyond_zero,
        "scales": _scales(audit, subgroups, classes),
    }


def _readable(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The audit with groups called by their names instead of their keys, in sentences too.

    That there was one training run is said above every table, so not again beside every number.

    >>> row = {"group": "sex.male", "reason": "no negatives in group 'sex.male'"}
    >>> audit = {"groups": [{"key": "sex.male", "name": "male"}], "scope": "population",
    ...          "accuracy": {}, "divergence": {}, "gaps": {}, "subgroups": {"prune-0.9": [row]}}
    >>> _readable(audit)["subgroups"]["prune-0.9"][0]
    {'group': 'male', 'reason': "no negatives in group 'male'"}
    """
    names = {group["key"]: group["name"] for group in audit["groups"]}
    by_quoted = {repr(key): repr(name) for key, name in names.items()}
    said = {ONE_RUN} if audit["scope"] == "shipped" else set()
    quoted = re.compile("|".join(map(re.escape, by_quoted)))

    def named(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: named(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [named(item) for item in value]
        if key in ("group", "group_a", "group_b", "attribute"):
            return names.get(value, value)
        if key == "note":
            return "; ".join(part for part in value.split("; ") if part not in said)
        if key == "reason":
            return quoted.sub(lambda found: by_quoted[found[0]], value)
        return value

    sections = ("accuracy", "divergence", "gaps", "subgroups")
    return {**audit, **{section: named(audit[section]) for section in sections}}


def _rates(audit: Mapping[str, Any], variant: str) -> dict[str, list[Row]]:
    """Rows by metric, those of every class against the rest apart, groups in the audit's order."""
    rows = [row for row in audit["subgroups"][variant] if row["class"] is None]
    found = {metric: [row for row in rows if row["metric"] == metric] for metric in METRICS}
    return {metric: kept for metric, kept in found.items() if kept}


def _rates_by_class(
    audit: Mapping[str, Any], variant: str, classes: list[Row]
) -> dict[str, list[tuple[str, list[Row]]]]:
    """Rows by metric and class; of many classes those that lose most."""
    rows = [row for row in audit["subgroups"][variant] if row["class"] is not None]
    most = max(1, MOST_RATES // len(audit["groups"]))
    worst = {row["class"] for row in classes[:most]}
    found = {}
    for metric in METRICS:
        mine = [row for row in rows if row["metric"] == metric]
        if mine:
            found[metric] = [
                (name, [row for row in mine if row["class"] == name])
                for name in audit["examples"]["classes"]
                if name in worst
            ]
    return found


def _classes(audit: Mapping[str, Any], variant: str) -> list[Row]:
    """Classes from the largest loss to the largest gain, those without a number last."""
    misses = _misses(audit, variant)
    rows = [
        {
            **row,
            "normalised": from_class(row, "normalised"),
            "absolute": misses.get(row["class"], from_class(row, "absolute")),
        }
        for row in audit["classes"][variant]
    ]
    return sorted(
        rows, key=lambda r: (r["normalised"]["value"] is None, r["normalised"]["value"] or 0.0)
    )


def _misses(audit: Mapping[str, Any], variant: str) -> dict[str, Row]:
    """Change of recall by class, percentage points, with the interval of the misses' change.

    Recall is 1 - FNR, and of two classes the other one's is 1 - FPR of the positive one.
    """
    everyone = audit["groups"][0]["name"]
    changes = [row for row in audit["subgroups"][variant] if row["group"] == everyone]
    classes, positive = audit["examples"]["classes"], audit["examples"]["positive"]
    other = [name for name in classes if name != positive]
    found = {}
    for row in changes:
        name = row["class"] if positive is None else positive
        if row["metric"] == "fpr":
            if positive is None or len(other) > 1:
                continue
            name = other[0]
        elif row["metric"] != "fnr":
            continue
        found[name] = mirrored(_times_100(row["absolute"]))
    return found


def _times_100(estimate: Row) -> Row:
    scaled = {key: estimate[key] for key in ("value", "low", "high")}
    return {**estimate, **{k: None if x is None else 100.0 * x for k, x in scaled.items()}}


def _cut(rows: list[Row]) -> tuple[list[Row], int, list[Row]]:
    """The first rows, how many are left out, and the last rows."""
    if len(rows) <= MOST_CLASSES:
        return rows, 0, []
    half = MOST_CLASSES // 2
    return rows[:half], len(rows) - 2 * half, rows[-half:]


def _scales(
    audit: Mapping[str, Any], subgroups: dict[str, dict[str, list[Row]]], classes: dict[str, Any]
) -> dict[str, Scale | None]:
    """One axis for each column of drawings, over all variants."""
    found = {
        "excess": scale_of(d["cie"]["excess"] for d in audit["divergence"].values()),
        "flips": scale_of(d["flips"] for d in audit["divergence"].values() if d["flips"]),
        "gap": scale_of(gap["gap"] for gaps in audit["gaps"].values() for gap in gaps),
        "classes": scale_of(row["normalised"] for rows in classes.values() for row in rows),
    }
    found["slices"] = scale_of(
        one["effect"] for rows in audit.get("slices", {}).values() for one in rows["slices"]
    )
    for metric in METRICS:
        tables = (tables.get(metric, []) for tables in subgroups.values())
        found[metric] = scale_of(row["absolute"] for rows in tables for row in rows)
    return found


def _subset_name(subset: str) -> str:
    """What a row of the accuracy table is called.

    >>> _subset_name("taxicab 90"), _subset_name("CIEs")
    ('taxicab percentile 90', 'CIEs')
    """
    if subset.startswith("taxicab "):
        return f"taxicab percentile {subset.removeprefix('taxicab ')}"
    return "all examples" if subset == "all" else subset


def _largest_beyond_zero(taxicab: Mapping[str, list[float]]) -> float:
    """The most examples at one distance, distance 0 aside: the longest bar.

    >>> _largest_beyond_zero({"distance": [0.0, 2.0, 4.0], "examples": [90, 3, 7]})
    7
    """
    counts = zip(taxicab["distance"], taxicab["examples"], strict=True)
    return max((examples for distance, examples in counts if distance), default=1)


def _gallery(
    audit: Mapping[str, Any], variants: list[str], album: Album
) -> dict[str, list[tuple[Row, Row | None]]]:
    """Pairs of cards by variant; images go out rank by rank, so that every variant gets some."""
    pairs: dict[str, list[tuple[Row, Row | None]]] = {variant: [] for variant in variants}
    for rank, variant in _ranks(audit["gallery"], variants):
        pair = audit["gallery"][variant][rank]
        other = pair["non_cie"]
        pairs[variant].append(
            (_card(pair["cie"], album), None if other is None else _card(other, album))
        )
    return pairs


def _ranks(gallery: Mapping[str, list[Any]], variants: list[str]) -> Iterator[tuple[int, str]]:
    for rank in range(max(len(gallery[variant]) for variant in variants)):
        yield from ((rank, variant) for variant in variants if rank < len(gallery[variant]))


def _card(card: Row, album: Album) -> Row:
    return {
        **card,
        "picture": album.take(card["example_id"]),
        "attributes": sorted(card["attributes"].items()),
    }
