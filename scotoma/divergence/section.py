"""Which predictions change, and how? What accuracy hides, distances and flips, as sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scotoma.audit import Audit, Quantity
from scotoma.audit.base import cells_at
from scotoma.audit.divergence import Distances, Divergence, Representation
from scotoma.audit.findings import Findings
from scotoma.document import Cell, Chart, Column, Noted, Section, Table, show
from scotoma.numbers import FEW_RUNS

MOST_BARS = 60  # distances of a variant; more are put into this many bins
MOST_GROUPS = 16  # drawn among the CIEs of a variant
MOST_ROWS = 12  # on the page; the CSV files have all
LEAST, MOST = 0.125, 8.0  # of the axis: an eighth of the share in the data, eight times it
THESE = "these populations, another test set"
FIXED = "the subset is taken as given"
N = Column("n", "n", "count")
VARIANT = Column("variant", "Variant")


def topline_section(findings: Findings) -> Section | None:
    """Accuracy beside the examples that change; None where examples have scores."""
    audit = findings.audit
    if not audit.divergence:
        return None
    labelled = audit.labelled
    paired = any(divergence.cie.paired for divergence in audit.divergence.values())
    table = Table(
        "topline",
        "Top-1 accuracy beside the examples that change" if labelled
        else "The examples that change",
        (
            VARIANT,
            *([Column("top1", "Top-1, mean", "rate")] if labelled else []),
            Column("cies", "CIEs", "count"),
            Column("share", "CIEs, share", "rate"),
            Column("differ", "Models differ", "rate"),
            Column("floor", "Floor", "rate"),
            Column("excess", "Excess, points", "points", drawn=True),
            N,
            Column("members", "Members", "count"),
        ),
        [_topline(audit, variant.name, variant.members) for variant in audit.variants],
        f"CIEs among {show(audit.examples.test).value} test examples; in brackets the fewest and "
        "the most, however ties are broken. The interval of their share is for these populations "
        "on another test set. The next columns compare single models, over all pairs; seeds alone "
        "leave the excess at 0."
        + " A model made from a dense one is compared with it, which leaves no seed noise and no "
        "floor; its excess compares it with other dense ones." * paired,
        known=(*FEW_RUNS, THESE),
    )  # fmt: skip
    lead = "Accuracy hides changes: ten examples lost and ten gained leave it the same. "
    return Section(
        "topline",
        "What top-1 accuracy hides" if labelled else "How many examples change",
        [
            f"{lead * labelled}CIEs are the examples that most compressed models label "
            "differently than most dense ones.",
            "Other seeds change labels too: the floor is how often two dense models differ, the "
            "excess how much more often a dense and a compressed one do.",
        ],
        [table],
        folded=True,
        about="CIEs, floor and excess",
        link="Accuracy and CIEs" if labelled else "CIEs and floor",
    )  # fmt: skip


def _of_first(rows: Sequence[Mapping[str, Cell]]) -> int:
    """Rows on the page: those of the variant that a reader sees first."""
    first = [row for row in rows if row["variant"] == rows[0]["variant"]]
    return min(MOST_ROWS, len(first))


def _topline(audit: Audit, variant: str, members: int) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        "variant": variant,
        "top1": audit.number("accuracy", variant, "top1"),
        "n": audit.examples.clusters,
        "members": members,
    }
    if variant not in audit.divergence:
        return row | {"cies": "the baseline"}
    counts, shares = (
        audit.divergence[variant].cie.cie,
        cells_at(audit.at("divergence", variant, "cie.")[0]),
    )
    span = f"{show(counts.low).value} to {show(counts.high).value}"
    ties = f"{show(counts.ties).value} tie{'' if counts.ties == 1 else 's'}"
    return row | {
        "cies": Noted(counts.count, f"[{span}], {ties}"),
        **shares,
        "share": shares["cie_share"],
        "differ": audit.differing(variant),
        **({"floor": "none: made from dense"} if audit.divergence[variant].cie.paired else {}),
    }


def beyond_noise(findings: Findings) -> str:
    """Say whether more examples change than another seed would change.

    By the CIEs, or by a FAIL: the intervals of a population's tests cover its seeds.
    """
    audit, gate, variant = findings.audit, findings.gate, findings.focus
    judged = next((v for v in gate.variants if v.name == variant), None) if gate else None
    (row,) = audit.numbers("divergence", variant, what="cie.excess")
    excess, shown = row.number, show(row.number, "points")
    interval = f"{shown.number} points of CIEs beyond seed noise"
    if (excess.low or 0.0) > 0:
        return f"More than seed noise: {interval}."
    if judged is not None and judged.verdict == "FAIL" and audit.scope == "population":
        beside = interval if shown.low else shown.reason
        return f"More than seed noise: {judged.sentences[0]}. {beside[:1].upper()}{beside[1:]}."
    if not shown.low:
        return f"Whether it is more than seed noise is unknown: {shown.reason}."
    if (excess.high or 0.0) < 0:
        return f"Not more than seed noise: {interval}."
    return f"Not shown to be more than seed noise: {interval}; the interval includes 0."


def flips_section(findings: Findings) -> Section | None:
    """Distances, groups among the CIEs, and every way in which predictions change."""
    audit = findings.audit
    if not audit.divergence:
        return None
    names = sorted(audit.divergence, key=[v.name for v in audit.variants].index)
    names.sort(key=lambda name: name != findings.focus)
    parts: list[Chart | Table] = [
        _taxicab(audit, names),
        _over_index(findings, names),
        _subsets(audit, names),
        _ledger(findings, names),
        _thresholds(audit, names),
    ]
    return Section(
        "cies",
        "How examples change",
        [
            "The taxicab distance of an example is how far apart the votes of the two populations "
            "are: 0 where they vote alike, largest where no vote agrees."
        ],
        [part for part in parts if (part.table if isinstance(part, Chart) else part).rows],
        folded=True,
        about="distances and flips by group",
        link="Distances",
    )


def _taxicab(audit: Audit, names: Sequence[str]) -> Chart:
    members = {v.name: v.members for v in audit.variants}
    rows = [
        row
        for name in names
        for row in _distances(name, audit.divergence[name], audit.dense.members, members[name])
    ]
    right = (
        Column("dense", "Dense right", "rate"),
        Column("compressed", "Compressed right", "rate"),
    )
    table = Table(
        "taxicab",
        "Examples at each distance",
        (
            VARIANT,
            Column("distance", "Distance", "count"),
            Column("examples", "Examples there", "count"),
            Column("beyond", "There or beyond", "count"),
            *(right if audit.labelled else ()),
        ),
        rows,
        "No intervals: these numbers describe these examples. Right: among those there or beyond.",
        stub=2,
        most=_of_first(rows),
    )
    first = audit.divergence[names[0]].taxicab
    alike = sum(n for at, n in zip(first.distance, first.examples, strict=True) if at == 0)
    return Chart(
        "taxicab",
        "How far apart the votes of dense and compressed models are",
        f"In {names[0]} {show(alike).value} of {show(first.n).value} examples lie at distance 0, "
        "where both vote alike, and have no bar. Dashed: from here on lies the tenth that differs "
        "most.",
        table,
        "taxicab",
        by="variant",
    )


def _distances(
    variant: str, divergence: Divergence, dense: int, members: int
) -> Iterator[dict[str, Cell]]:
    rows = _binned(divergence.taxicab)
    last = max(rows.distance, default=0.0)
    if last <= 0:
        return
    known = [row.value for row in divergence.thresholds if row.value is not None]
    gaps = [b - a for a, b in zip(rows.distance, rows.distance[1:], strict=False)]
    # Three quarters of the smallest gap, so that bars never touch.
    width = 0.75 * min(gaps, default=last)
    for place, (distance, examples) in enumerate(zip(rows.distance, rows.examples, strict=True)):
        beyond = sum(rows.examples[place:])
        rights = (rows.dense_right, rows.compressed_right)
        shares = [
            None if right is None else sum(right[place:]) / (beyond * models)
            for right, models in zip(rights, (dense, members), strict=True)
        ]
        yield {
            "variant": variant,
            "distance": distance,
            "examples": examples,
            "beyond": beyond,
            "dense": shares[0],
            "compressed": shares[1],
            "from": distance - width / 2,
            "until": distance + width / 2,
            "tenth": known[0] if known else None,
        }


def _binned(rows: Distances) -> Distances:
    """The same counts at fewer distances where there are very many, each bin at its low end."""
    distance = rows.distance
    if len(distance) <= MOST_BARS:
        return rows
    width = max(distance) / (MOST_BARS - 1)
    # Distance 0 keeps a bin of its own.
    bins = [0 if d == 0 else 1 + int(d / width) for d in distance]
    used = sorted(set(bins))

    def added(counts: Sequence[int] | None) -> tuple[int, ...] | None:
        if counts is None:
            return None
        return tuple(sum(c for c, b in zip(counts, bins, strict=True) if b == one) for one in used)

    return Distances(
        distance=tuple(0.0 if one == 0 else round((one - 1) * width, 3) for one in used),
        examples=added(rows.examples) or (),
        dense_right=added(rows.dense_right),
        compressed_right=added(rows.compressed_right),
        groups=(),
        n=rows.n,
    )


def _over_index(findings: Findings, names: Sequence[str]) -> Chart:
    audit = findings.audit
    train = audit.examples.train
    training = {group.key: group.train / train for group in audit.groups} if train else {}
    rows: list[dict[str, Cell]] = []
    for name in names:
        changes = audit.numbers("divergence", name, what="over_index.change")
        entries = [
            (one, row.number)
            for one, row in zip(audit.divergence[name].over_index, changes, strict=True)
        ]
        uneven = sorted(entries, key=lambda entry: -abs(entry[1].value or 0.0))[:MOST_GROUPS]
        rows += [
            _represented(findings, name, *entry, training, entry in uneven) for entry in entries
        ]
    table = Table(
        "over_index",
        "Share among the CIEs against share in the data",
        (
            VARIANT,
            Column("group", "Group"),
            Column("training", "Share in training", "rate"),
            Column("data", "Share in the data", "rate"),
            Column("cies", "CIEs", "count"),
            Column("flagged", "Share among the CIEs", "rate"),
            Column("change", "Change, relative", "percent"),
        ),
        rows,
        "Intervals are for these populations on another test set.",
        stub=2,
        known=(*FEW_RUNS, THESE),
        most=_of_first(rows),
    )
    return Chart(
        "over_index",
        "Groups that are over-represented among the CIEs",
        "1: as frequent among the CIEs as in the test data; 2: twice as frequent. Right: CIEs of "
        "the group. Filled: the interval excludes 1. Cross: not estimable.",
        table,
        "over_index",
        by="variant",
    )


def _represented(
    findings: Findings,
    variant: str,
    row: Representation,
    change: Quantity,
    training: dict[str, float],
    drawn: bool,
) -> dict[str, Cell]:
    low, high = change.low, change.high
    return {
        "variant": variant,
        "group": findings.name(row.attribute),
        "training": training.get(row.attribute, row.share_in_training),
        "data": row.share_in_data,
        "cies": row.n_flagged,
        "flagged": "no CIE" if row.share_in_flagged is None else row.share_in_flagged,
        "change": change,
        "at": _ratio(change.value),
        "at_low": _ratio(low),
        "at_high": _ratio(high),
        "beyond": low is not None and high is not None and (low > 0 or high < 0),
        "drawn": drawn,
    }


def _ratio(change: float | None) -> float | None:
    """A relative change as a ratio, held inside the axis.

    >>> _ratio(1.0), _ratio(1e9)
    (2.0, 8.0)
    """
    return None if change is None else round(min(max(1 + change, LEAST), MOST), 4)


def _subsets(audit: Audit, names: Sequence[str]) -> Table:
    clustered = audit.examples.clusters != audit.examples.test
    rows: list[dict[str, Cell]] = [
        {
            **cells_at(at),
            "variant": name,
            "subset": _subset_name(at["dense"].fact("subset")),
            "examples": audit.divergence[name].subsets[at["dense"].fact("subset")],
            "n": at["dense"].number.n,
        }
        for name in names
        for at in audit.at("divergence", name, "top1.")
    ]
    return Table(
        "subsets",
        "Accuracy on the examples that change and on the others",
        (
            VARIANT,
            Column("subset", "Subset"),
            Column("examples", "Examples", "count"),
            N,
            Column("dense", "Dense", "rate"),
            Column("compressed", "Compressed", "rate"),
        ),
        rows,
        "“Taxicab percentile 90” is the tenth of the examples with the largest distances; examples "
        "that tie there count in part. Intervals take each subset as fixed."
        + " n counts clusters."
        * clustered,
        stub=2,
        known=(*FEW_RUNS, THESE, FIXED),
        most=_of_first(rows),
    )


def _subset_name(subset: str) -> str:
    """What a row of the accuracy table is called.

    >>> _subset_name("taxicab 90"), _subset_name("CIEs")
    ('taxicab percentile 90', 'CIEs')
    """
    if subset.startswith("taxicab "):
        return f"taxicab percentile {subset.removeprefix('taxicab ')}"
    return "all examples" if subset == "all" else subset


def _ledger(findings: Findings, names: Sequence[str]) -> Table:
    audit = findings.audit
    pairs = "pairs of a dense member and the compressed one that derives from it"
    paired = [audit.divergence[name].cie.paired for name in names]
    if not all(paired):
        pairs = "all pairs of a dense and a compressed member, whose seeds differ too"
        pairs += "; models made from a dense one are paired with it" * any(paired)
    ways = (
        Column("right_to_wrong", "Right to wrong", "rate"),
        Column("wrong_to_right", "Wrong to right", "rate"),
        Column("wrong_to_other", "Wrong to another wrong", "rate"),
    )
    sizes = {group.key: group.n for group in audit.groups}
    bound = " The error of a group rises by no more than the share that changes."
    rows: list[dict[str, Cell]] = [
        {
            **cells_at(at),
            "variant": name,
            "group": findings.name(str(at["changed"].group)),
            "examples": sizes[str(at["changed"].group)],
            "n": at["changed"].number.n,
        }
        for name in names
        for at in audit.at("divergence", name, "ledger.")
    ]
    return Table(
        "flips",
        "Every way a prediction changes, by group" if audit.labelled
        else "Predictions that change, by group",
        (
            VARIANT,
            Column("group", "Group"),
            Column("examples", "Examples", "count"),
            N,
            Column("changed", "Changed", "rate"),
            *(ways if audit.labelled else ()),
        ),
        rows,
        f"Shares of predictions over {pairs}." + bound * (not audit.labelled),
        stub=2,
        known=FEW_RUNS,
        most=_of_first(rows),
    )  # fmt: skip


def _thresholds(audit: Audit, names: Sequence[str]) -> Table:
    return Table(
        "thresholds",
        "Distance at each percentile",
        (
            VARIANT,
            Column("percentile", "Percentile", "count"),
            Column("distance", "Distance", "count"),
            Column("wanted", "Wanted", "count"),
            Column("above", "Above", "count"),
            Column("tied", "Tied", "count"),
            Column("reason", "Why there is none"),
        ),
        [
            {
                "variant": name,
                "percentile": row.percentile,
                "distance": row.value,
                "wanted": row.wanted,
                "above": row.above,
                "tied": None if row.value is None else row.tied,
                "reason": row.reason,
            }
            for name in names
            for row in audit.divergence[name].thresholds
        ],
        stub=2,
        most=0,
    )
