"""Which classes are affected? The recall that each loses, as a section."""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit import Audit
from scotoma.audit.base import At
from scotoma.audit.findings import Findings
from scotoma.document import Cell, Column, Interval, Section, Table
from scotoma.document.cells import Ranged
from scotoma.numbers import FEW_RUNS

MOST_ROWS = 10  # on the page; the CSV file has all
MOST_CLASSES = 60  # of a variant whose recall has an interval, of very many


def classes_section(findings: Findings) -> Section | None:
    """The recall that each class loses beyond the model's accuracy; None without labels."""
    audit = findings.audit
    if not audit.labelled:
        return None
    names = sorted((v.name for v in audit.compressed), key=lambda name: name != findings.focus)
    rows = [row for name in names for row in _rows(audit, name)]
    table = Table(
        "classes",
        "Recall of each class",
        (
            Column("variant", "Variant"),
            Column("class", "Class"),
            Column("n", "n", "count"),
            Column("beyond", "Recall lost beyond accuracy, points", "points", drawn=True),
            Column("lost", "Recall lost, points", "points"),
            Column("p", "Adjusted p", "p"),
            Column("significant", "Significant"),
        ),
        rows,
        "p is two-sided, adjusted over the classes (Benjamini-Hochberg); significant means at most "
        f"{round(1 - audit.level, 4):g}.",
        stub=2,
        known=FEW_RUNS,
        most=min(MOST_ROWS, len(audit.at("impact", names[0]))),
        marked=[place for place, row in enumerate(rows) if row["significant"] != "no"],
    )
    return Section(
        "classes",
        "Which classes are affected",
        [
            "The first number is the recall that a class loses beyond the accuracy that the model "
            "loses: 0 means that the class changes as the model does.",
            "“Loses more” and “loses less” compare with the model as a whole: a class that loses "
            "less can still lose recall, as the next number shows.",
        ],
        [table],
        folded=True,
        about="recall of each class",
        link="Classes",
    )


def _rows(audit: Audit, variant: str) -> Iterator[dict[str, Cell]]:
    misses = _misses(audit, variant)
    for at in _ordered(audit, variant):
        p, loss, name = at["p, adjusted"].number.value, at["beyond accuracy"].number, _class(at)
        loses = "▼ loses more" if (loss.value or 0.0) > 0 else "▲ loses less"
        yield {
            "variant": variant,
            "class": name,
            "n": loss.n,
            "beyond": loss,
            "lost": misses.get(name) or _lost(at),
            "p": (loss.reason or "undefined (no reason was recorded)") if p is None else p,
            "significant": loses if p is not None and p <= 1 - audit.level else "no",
        }


def shown_classes(audit: Audit, variant: str) -> list[str]:
    """Name the classes whose recall is shown with its interval: of very many the extremes."""
    names = [_class(at) for at in _ordered(audit, variant)]
    if len(names) <= MOST_CLASSES:
        return names
    return [*names[: MOST_CLASSES // 2], *names[-MOST_CLASSES // 2 :]]


def _ordered(audit: Audit, variant: str) -> list[At]:
    """Classes from the largest loss to the largest gain, those without a number last."""

    def rank(at: At) -> tuple[bool, float]:
        value = at["beyond accuracy"].number.value
        return value is None, -(value or 0.0)

    return sorted(audit.at("impact", variant), key=rank)


def _class(at: At) -> str:
    return str(at["beyond accuracy"].class_name)


def _lost(at: At) -> Interval:
    """The recall that a class loses, which has no interval."""
    before, after = (at[side].number.value for side in ("dense", "compressed"))
    loss, value = at["beyond accuracy"].number, None
    if before is not None and after is not None:
        value = before - after
    return Interval(value, None, None, loss.n, loss.reason or "no interval was computed", loss.note)


def _misses(audit: Audit, variant: str) -> dict[str, Ranged]:
    """The recall that each class loses: the rise of its misses.

    Recall is 1 - FNR, and of two classes the other one's is 1 - FPR of the positive one.
    """
    everyone = audit.groups[0].key
    changes = audit.numbers("rates", variant, group=everyone, what="absolute")
    classes, positive = audit.examples.classes, audit.examples.positive
    other = [name for name in classes if name != positive]
    recalls: dict[str, Ranged] = {}
    for row in changes:
        name = row.class_name if positive is None else positive
        if row.metric == "fpr":
            if positive is None or len(other) > 1:
                continue
            name = other[0]
        elif row.metric != "fnr":
            continue
        if name is not None:
            recalls[name] = row.number
    return recalls
