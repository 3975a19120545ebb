"""Which examples change? Each beside an unchanged one of its class, as a section and as pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scotoma.answers.group_keys import group_key
from scotoma.audit import Audit
from scotoma.audit.document import AuditedVariant, GalleryCard, GalleryPair
from scotoma.audit.findings import Findings, VariantLayers
from scotoma.divergence.section import beyond_noise
from scotoma.document import (
    Album,
    Card,
    Cell,
    Column,
    Document,
    ExamplePair,
    Facts,
    Filter,
    Pictures,
    Section,
    Table,
    show,
)
from scotoma.numbers import FEW_RUNS
from scotoma.predictions.reruns import example_of_row

Gallery = Mapping[str, Sequence[GalleryPair]]

ON_PAGE = 12  # pairs of a variant on the audit's page
ON_A_PAGE = 100  # pairs on each page of a folder of pages
ATTRIBUTES = 20  # of a card that are shown: two hundred would fill the page
FLIPS = {
    "broken": "right to wrong",
    "mended": "wrong to right",
    "moved": "wrong to another wrong",
}


def gallery_section(findings: Findings) -> Section | None:
    """The examples that change most; None where examples have scores."""
    audit, images, remark = findings.audit, findings.beside.images, findings.beside.remark
    if audit.scores is not None:
        return None
    names = sorted((v.name for v in audit.compressed), key=lambda name: name != findings.focus)
    texts = Texts(findings.beside.texts)
    shown = {name: audit.gallery[name][:ON_PAGE] for name in names}
    class_words = "" if audit.labelled else " (by the dense models)"
    return Section(
        "gallery",
        "Which examples change?",
        [
            beyond_noise(findings),
            f"Most changed first, each beside an unchanged example of the same class{class_words}. "
            f"Beside a label: how many models give it.{f' {remark}' if remark else ''}",
        ],
        [_pictures(audit, shown, images, texts, audit.gallery)],
        link="Examples",
    )


def gallery_documents(
    audit: Audit, gallery: Gallery, images: Mapping[str, bytes], remark: str = ""
) -> dict[str, Document]:
    """The pairs of every variant as pages, a hundred each.

    Args:
        audit: The audit.
        gallery: Variant to its pairs, the most changed first.
        images: Encoded images by example id.
        remark: A sentence about the images.

    Returns:
        Name of a file to its document; `index.html` links to the others.
    """
    parts = [
        (f"v{place}-{start // ON_A_PAGE + 1}.html", variant.name, start)
        for place, variant in enumerate(audit.compressed, 1)
        for start in range(0, len(gallery.get(variant.name, ())), ON_A_PAGE)
    ]
    kind = "Scotoma audit, examples that change"
    pages = [("index.html", "All variants")]
    for file, name, start in parts:
        end = min(start + ON_A_PAGE, len(gallery[name]))
        pages.append((file, f"{name}, {start + 1} to {end}"))
    lead = f"{len(parts)} pages: every example whose most frequent label changes, by variant."
    documents = {
        "index.html": Document(audit.project, lead, (), kind, pages, "index.html"),
    }
    for file, name, start in parts:
        own = gallery[name][start : start + ON_A_PAGE]
        last, total = show(start + len(own)).value, show(len(gallery[name])).value
        lead = (
            f"CIEs {show(start + 1).value} to {last} of {total}, the most changed first, each "
            f"beside an unchanged example of the same class. {remark}".rstrip()
        )
        pictures = _pictures(audit, {name: own}, images, Texts(), {})
        section = Section("gallery", "Examples", parts=[pictures])
        documents[file] = Document(name, lead, [section], kind, pages, file)
    return documents


def _pictures(
    audit: Audit, shown: Gallery, images: Mapping[str, bytes], texts: Texts, every: Gallery
) -> Pictures:
    """Pairs and their images go out rank by rank, so that each variant gets some."""
    album, ratios = Album(images), _telling(audit)
    variants = {variant.name: variant for variant in audit.compressed}
    classes = {name: str(number) for number, name in enumerate(_classes(shown))}
    values = {value: str(number) for number, value in enumerate(_values(shown))}
    pairs: dict[str, list[ExamplePair]] = {name: [] for name in shown}
    for rank, name in _ranks(shown):
        row = shown[name][rank]
        flip = _flip(row.cie)
        cards = [
            _card(audit, variants[name], kind, card, album if images else None,
                  ratios.get(name, {}), texts.take(name, card.example_id))
            for kind, card in (("CIE", row.cie), ("Not a CIE", row.non_cie))
            if card is not None
        ]  # fmt: skip
        change = f"{row.cie.label}: {FLIPS[flip]}, " if flip else ""
        pairs[name].append(
            ExamplePair(
                f"{change}distance {show(row.cie.taxicab).value}",
                cards,
                "No unchanged example of this class is left." * (row.non_cie is None),
                {
                    "class": [classes[_class(row.cie)]],
                    "group": [values[value] for value in sorted(row.cie.attributes.items())],
                    "flip": [flip],
                },
            )
        )
    notes = {name: _note(audit, name, len(pairs[name])) for name in shown} if every else {}
    return Pictures("gallery", pairs, _table(every), _filters(shown), notes)


def _note(audit: Audit, variant: str, shown: int) -> str:
    count = audit.divergence[variant].cie.cie.count
    if not count:
        return "No example changes its modal label."
    if count <= shown:
        return ""
    return (
        f"{shown} of {show(count).value} CIEs; scotoma show RUN examples --out FOLDER writes all "
        "of them."
    )


def _card(
    audit: Audit,
    variant: AuditedVariant,
    kind: str,
    card: GalleryCard,
    album: Album | None,
    ratios: Mapping[str, float],
    texts: Sequence[tuple[str, str]],
) -> Card:
    """A card whose attributes that are found more often among CIEs than elsewhere come first."""

    def order(part: tuple[str, str]) -> tuple[float, str]:
        return -ratios.get(group_key([part]), 0.0), part[0]

    def answer(modal: str, votes: int, members: int) -> tuple[str, bool | None]:
        return f"{modal} {votes}/{members}", None if card.label is None else modal == card.label

    attributes = sorted(card.attributes.items(), key=order)
    more = len(attributes) - ATTRIBUTES
    about = "; ".join(f"{name} {value}" for name, value in attributes[:ATTRIBUTES])
    whose = "" if card.label is None else f" of class {card.label}"
    dense = answer(card.dense_modal, card.dense_votes, audit.dense.members)
    compressed = answer(card.compressed_modal, card.compressed_votes, variant.members)
    return Card(
        kind,
        card.example_id,
        [(audit.dense.name, *dense), (variant.name, *compressed)],
        f"{about}; {more} more" if more > 0 else about,
        album.take(card.example_id, f"{kind}: example {card.example_id}{whose}") if album else None,
        texts,
    )


def _table(gallery: Gallery) -> Table:
    """The same pairs as rows: a CSV file."""
    return Table(
        "examples",
        "Examples that change, each beside an unchanged one",
        (
            Column("variant", "Variant"),
            Column("example", "Example"),
            Column("label", "True label"),
            Column("dense", "Dense"),
            Column("dense_votes", "Votes", "count"),
            Column("compressed", "Compressed"),
            Column("compressed_votes", "Votes", "count"),
            Column("distance", "Distance", "count"),
            Column("about", "Features"),
            Column("unchanged", "Unchanged, of the same class"),
        ),
        [_row(name, pair) for name, pairs in gallery.items() for pair in pairs],
        stub=2,
    )


def _row(variant: str, pair: GalleryPair) -> dict[str, Cell]:
    cie = pair.cie
    return {
        "variant": variant,
        "example": cie.example_id,
        "label": cie.label,
        "dense": cie.dense_modal,
        "dense_votes": cie.dense_votes,
        "compressed": cie.compressed_modal,
        "compressed_votes": cie.compressed_votes,
        "distance": cie.taxicab,
        "about": "; ".join(f"{name} {value}" for name, value in sorted(cie.attributes.items())),
        "unchanged": None if pair.non_cie is None else pair.non_cie.example_id,
    }


def _flip(card: GalleryCard) -> str:
    return kind_of_flip(card.label, card.dense_modal, card.compressed_modal)


def kind_of_flip(label: str | None, dense: str, compressed: str) -> str:
    """What the change of the modal label did; empty where the label is not known.

    >>> kind_of_flip("cat", "cat", "dog"), kind_of_flip("cat", "dog", "owl")
    ('broken', 'moved')
    """
    if label is None:
        return ""
    if dense == label:
        return "broken"
    return "mended" if compressed == label else "moved"


def _filters(gallery: Gallery) -> list[Filter]:
    """Choices that the pairs leave, those with one option left out.

    In the page an option is a number: names are others' words.
    """
    cards = [pair.cie for pairs in gallery.values() for pair in pairs]
    flips = {_flip(card) for card in cards}
    whose = "Class, by dense models" if any(c.label is None for c in cards) else "True class"
    choices = (
        Filter("class", whose, _numbered(_classes(gallery))),
        Filter("group", "Group", _numbered([f"{a}: {v}" for a, v in _values(gallery)])),
        Filter("flip", "Kind of flip", [(key, FLIPS[key]) for key in FLIPS if key in flips]),
    )
    return [choice for choice in choices if len(choice.options) > 1]


def _telling(audit: Audit) -> dict[str, dict[str, float]]:
    """How much more often each value is found among the CIEs of a variant than in the data."""
    return {
        name: {
            row.attribute: row.share_in_flagged / row.share_in_data
            for row in divergence.over_index
            if row.share_in_flagged is not None and row.share_in_data
        }
        for name, divergence in audit.divergence.items()
    }


def _classes(gallery: Gallery) -> list[str]:
    return sorted({_class(pair.cie) for pairs in gallery.values() for pair in pairs})


def _class(card: GalleryCard) -> str:
    """The true class; without labels that of the dense models."""
    return card.dense_modal if card.label is None else card.label


def _values(gallery: Gallery) -> list[tuple[str, str]]:
    cards = (pair.cie for pairs in gallery.values() for pair in pairs)
    return sorted({value for card in cards for value in card.attributes.items()})


def _numbered(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(str(number), text) for number, text in enumerate(texts)]


def _ranks(gallery: Gallery) -> Iterator[tuple[int, str]]:
    for rank in range(max(map(len, gallery.values()), default=0)):
        yield from ((rank, name) for name, pairs in gallery.items() if rank < len(pairs))


LONGEST = 4_000  # characters of one text; the rest is left out, and says so
BUDGET = 600_000  # characters of all texts of a page

Titled = tuple[tuple[str, str], ...]


class Texts:
    """Hands out the texts of examples until the budget is spent.

    >>> texts = Texts({("int8", "q1"): (("Question", "2 + 2?"), ("Answer", ""))})
    >>> texts.take("int8", "q1"), texts.take("int8", "q2")
    ((('Question', '2 + 2?'),), ())
    """

    def __init__(
        self, texts: Mapping[tuple[str, str], Titled] | None = None, budget: int = BUDGET
    ) -> None:
        """Hold the texts by variant and example id."""
        self._texts = texts or {}
        self._left = budget  # characters

    def take(self, variant: str, example_id: str) -> Titled:
        """The titled texts of an example that are not empty; of a rerun those of its example."""
        rows = self._texts.get((variant, example_id))
        if rows is None:
            rows = self._texts.get((variant, example_of_row(example_id)), ())
        shown = tuple((title, _cut(text)) for title, text in rows if text)
        size = sum(len(text) for _, text in shown)
        if size > self._left:
            return ()
        self._left -= size
        return shown


def _cut(text: str) -> str:
    """Cut a text that is too long.

    >>> _cut("a" * 4_100)[-24:]
    'a… (100 more characters)'
    """
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]}… ({more:,} more characters)"


MOST_ROWS = 12


def parity_section(findings: Findings) -> Section | None:
    """Predictions on which each exported file and its network differ; None without exports."""
    audit = findings.audit
    compared = [
        (variant.name, audit.parity[variant.name])
        for variant in audit.variants
        if variant.name in audit.parity
    ]
    if not compared:
        return None
    rows: list[dict[str, Cell]] = []
    for place, group in enumerate(compared[0][1].groups):
        cells: dict[str, Cell] = {"group": findings.name(group.group), "n": group.n}
        rows.append(cells | {name: exported.groups[place] for name, exported in compared})
    return Section(
        "parity",
        "Exported models",
        [
            "The first member of each exported variant runs in ONNX Runtime and its network in "
            "PyTorch, on every test example.",
        ],
        [
            Table(
                "parity",
                "Predictions on which the exported file and the network differ",
                (
                    Column("group", "Group"),
                    Column("n", "n", "count"),
                    *(
                        Column(
                            name,
                            f"{name}, same weights"
                            if name == exported.network
                            else f"{name} against {exported.network}",
                            "rate",
                        )
                        for name, exported in compared
                    ),
                ),
                rows,
                "With the same weights a difference comes from the export alone, otherwise from "
                "compression too. Intervals: this model on another test set.",
                known=("this model, another test set",),
                most=MOST_ROWS,
            )
        ],
        folded=True,
        about="does the file predict what the network predicts",
    )


MOST_LAYERS = 12  # of a variant, on the page


def layers_section(findings: Findings) -> Section | None:
    """The layers of every variant that fails; None where none does, or nothing was measured."""
    verdicts = {} if findings.gate is None else {v.name: v.verdict for v in findings.gate.variants}
    failed = [
        (variant.name, findings.beside.layers[variant.name])
        for variant in findings.audit.compressed
        if variant.name in findings.beside.layers and verdicts.get(variant.name) == "FAIL"
    ]
    if not failed:
        return None
    failed.sort(key=lambda pair: pair[0] != findings.focus)
    table = _layers_table(findings, failed)
    return Section(
        "layers",
        "Which layer did it",
        [
            "Layers are compressed one at a time, and then one after the other, the one that "
            "changes most labels first.",
            "What a layer changes alone need not add up: layers can undo each other"
            "\N{RIGHT SINGLE QUOTATION MARK}s errors, or share a tensor.",
        ],
        [
            *([table] if table.rows else []),
            Facts([(name, compared.compared) for name, compared in failed]),
        ],
        folded=True,
        about="labels that each layer changes",
        link="Which layer",
    )


def _layers_table(findings: Findings, failed: list[tuple[str, VariantLayers]]) -> Table:
    rows: list[dict[str, Cell]] = [
        {
            "variant": name,
            "layer": row.layer,
            "zero": row.sparsity,
            "n": row.alone.n,
            "members": row.alone.members,
            "alone": row.alone,
            "together": row.together,
        }
        for name, compared in failed
        for row in compared.layers
    ]
    pruned = any(row["zero"] is not None for row in rows)
    clustered = findings.audit.examples.clusters != findings.audit.examples.test
    unit = "n: clusters of test examples." if clustered else "n: test examples."
    few = dict.fromkeys(
        note
        for _, compared in failed
        for row in compared.layers
        for note in row.alone.note.split("; ")
        if note in FEW_RUNS
    )
    return Table(
        "layers",
        "Labels that each layer changes",
        (
            Column("variant", "Variant"),
            Column("layer", "Layer"),
            *([Column("zero", "Weights that are zero", "rate")] if pruned else []),
            Column("n", "n", "count"),
            Column("members", "Members", "count"),
            Column("alone", "Alone", "rate"),
            Column("together", "With the layers above", "rate"),
        ),
        rows,
        " ".join([unit, *(f"{note[:1].upper()}{note[1:]}." for note in few)]),
        stub=2,
        known=FEW_RUNS,
        most=MOST_LAYERS,
    )
