"""What each section of the page shows: rows chosen from the audit and put in order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scotoma.report import answers, gallery
from scotoma.report.concerns import SAID, concerns
from scotoma.report.downloads import downloads
from scotoma.report.images import Album
from scotoma.report.judged import level_words, opened, rule_words
from scotoma.report.marks import Scale, scale_of
from scotoma.report.model_card import model_card
from scotoma.report.numbers import from_class, mirrored
from scotoma.report.readable import in_names, readable
from scotoma.uncertainty import ONE_RUN

__all__ = ["context"]

Row = dict[str, Any]

METRICS = {"error": "Error", "fpr": "False positive rate", "fnr": "False negative rate"}
MOST_CLASSES = 60  # rows of a table of classes; more are cut in the middle
MOST_RATES = 120  # rows of a table of classes by groups
MOST_CLASS_NAMES = 20  # class names listed at the top
FEW_MEMBERS = 5  # below it CIE counts are unstable

CONTENTS = {
    "verdict": "Verdict",
    "questions": "Five questions",
    "reading": "How to read",
    "gate": "Gate",
    "topline": "Top line",
    "groups": "Groups",
    "cies": "Examples",
    "gallery": "Gallery",
    "classes": "Classes",
    "slices": "Slices",
    "clarify": "Clarify metrics",
    "variance": "Run to run",
    "frontier": "Frontier",
    "methods": "Methods and limits",
}


def context(
    audit: Mapping[str, Any],
    images: Mapping[str, bytes],
    gate: Mapping[str, Any] | None = None,
    measurements: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All that the templates read.

    Args:
        audit: The content of audit.json.
        images: Encoded images by example id.
        gate: The verdict; None where there is none.
        measurements: The content of measurements.json; None leaves its sections out.

    Returns:
        Names and values; nothing depends on the order of keys in `audit`.
    """
    audit = readable(audit)
    dense = next(variant for variant in audit["variants"] if variant["kind"] == "dense")
    compressed = [v for v in audit["variants"] if v["kind"] != "dense"]
    names = [variant["name"] for variant in compressed]
    focus = answers.in_focus(audit, gate)
    subgroups = {name: _rates(audit, name) for name in names}
    classes = {name: _classes(audit, name) for name in names}
    measured = in_names(audit, dict(measurements or {}))
    shown = {
        "audit": audit,
        "dense": dense,
        "compressed": [{**v, "slug": f"v{i}"} for i, v in enumerate(compressed, 1)],
        "focus": focus,
        "opened": focus["name"],
        "clustered": audit["examples"]["units"] != audit["examples"]["test"],
        "unstable": min(v["members"] for v in audit["variants"]) < FEW_MEMBERS,
        "few_members": FEW_MEMBERS,
        "one_run": f"{ONE_RUN[0].upper()}{ONE_RUN[1:]}.",
        "metrics": METRICS,
        "class_names": audit["examples"]["classes"][:MOST_CLASS_NAMES],
        "half_sizes": sorted({d["cie"]["half_size"] for d in audit["divergence"].values()}),
        "subgroups": subgroups,
        "rates_by_class": {name: _rates_by_class(audit, name, classes[name]) for name in names},
        "classes": {name: _cut(rows) for name, rows in classes.items()},
        "gallery": gallery.pairs(audit["gallery"], names, Album(images)),
        "pictured": bool(images),
        "filters": gallery.filters(audit["gallery"]),
        "FLIPS": gallery.FLIPS,
        "slices": audit.get("slices", {}),
        "clarify": {"questions": found, "said": SAID} if (found := concerns(audit)) else None,
        "spread": [_spread(audit, variant["name"]) for variant in audit["variants"]],
        "trap": _trap(audit, names),
        "parity": _parity(audit),
        "measurements": measured,
        "frontier": measured.get("frontier"),
        "newest": measured.get("newest"),
        "versions": sorted(measured.get("versions", {}).items()),
        "facts": answers.facts(audit, focus["name"]),
        "answers": answers.answers(audit, gate, focus["name"]),
        "verdict_sentence": answers.sentence(gate) if gate else "",
        "next_steps": answers.next_steps(gate) if gate else [],
        "open_tests": {v["name"]: opened(v) for v in gate["variants"]} if gate else {},
        "rule_words": rule_words,
        "level_words": level_words,
        "downloads": downloads(audit, gate),
        "model_card": model_card(audit, gate),
        "subset_name": _subset_name,
        "largest_beyond_zero": _largest_beyond_zero,
        "scales": _scales(audit, subgroups, classes),
    }
    there = {
        "gate": gate,
        "slices": any(shown["slices"].values()),
        "clarify": shown["clarify"],
        "frontier": shown["frontier"],
    }
    shown["contents"] = [(key, name) for key, name in CONTENTS.items() if there.get(key, True)]
    return shown


def _spread(audit: Mapping[str, Any], variant: str) -> Row:
    """Top-1 from member to member; one member has no spread."""
    found = [float(one) for one in audit["accuracy"][variant]["members"]]
    mean = sum(found) / len(found)
    squares = sum((one - mean) ** 2 for one in found)
    return {
        "variant": variant,
        "members": len(found),
        "mean": mean,
        "deviation": math.sqrt(squares / (len(found) - 1)) if len(found) > 1 else None,
        "lowest": min(found),
        "highest": max(found),
    }


def _trap(audit: Mapping[str, Any], variants: list[str]) -> Row:
    """The one-model trap as a table: variants by numbers of runs; None where none were drawn."""
    found = audit.get("one_model") or {"relative": 0.0, "absolute": 0.0, "variants": {}}
    drawn = {
        name: {row["runs"]: row for row in found["variants"].get(name, [])} for name in variants
    }
    sizes = sorted({runs for rows in drawn.values() for runs in rows})
    return {
        "relative": found["relative"],
        "absolute": found["absolute"],
        "sizes": sizes,
        "rows": [(name, [drawn[name].get(runs) for runs in sizes]) for name in variants if sizes],
    }


def _parity(audit: Mapping[str, Any]) -> Row:
    """Labels that exported models change, as a table: groups by variants; no rows where none are.

    Groups stand in the order of the audit, and so do variants.
    """
    by_variant = audit.get("parity") or {}
    names = [variant["name"] for variant in audit["variants"] if variant["name"] in by_variant]
    columns = [by_variant[name]["groups"] for name in names]
    return {
        "columns": [(name, by_variant[name]["network"]) for name in names],
        "rows": [(cells[0]["group"], cells) for cells in zip(*columns, strict=True)],
    }


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
