"""The page of an audit: drawn when the audit ends, and drawn again from its folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from scotoma.audit import Audit, GateResult, read_audit, read_gate, read_part
from scotoma.audit.document import GalleryPair
from scotoma.audit.findings import Beside, People, read_layers, read_reviewed
from scotoma.audit.rows import NUMBERS
from scotoma.audit.study import read_study
from scotoma.datasets import AuditedExamples
from scotoma.datasets.thumbnails import BLURRED, blurred, named_images, picture_files, shrunk
from scotoma.document import Document
from scotoma.errors import ConfigError, DataError
from scotoma.fix.layers import layers_file, write_layers
from scotoma.printable import ONE_OF_THEM, nearest, quoted
from scotoma.processes import progress
from scotoma.processes.machine import versions
from scotoma.run import Run, checksums, read_json
from scotoma.run.finished import compressed_variant, require_files
from scotoma.run.sources import Sources, examine
from scotoma.steps.inputs import compared_texts
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import file_digest, write_whole, written
from scotoma.verdict.frontier import frontier_rows


@when_due
def report(run: Run) -> Iterator[Leaves]:
    """Put every number and the verdict onto one page, and leave the images that it shows."""
    audit, gate, page = run.path("audit.json"), run.section("verdict"), run.path("report.html")
    kept = _kept(run)
    inputs = [run.examples, audit, gate, run.path(NUMBERS)]
    robustness = run.config.robustness
    inputs += [run.strip] if robustness and robustness.profile is not None else []
    yield Leaves([page, kept], inputs, _pictures(run))
    progress.start("write report", 1)
    content = _with_rates(run, read_audit(audit))
    judged = read_part(gate, GateResult)
    _keep(kept, _shrunk(run, _in_gallery(content)))
    run.publish(*write_layers(run, judged))
    document = _document(run, content, judged, versions(), blur=False, images=True)
    run.publish(*_write(run, page, document))
    progress.advance("write report")


def draw(run: Run, *, images: bool = True, blur: bool = False) -> Path:
    """Draw the page of a finished audit again; arguments and errors as for `page_document`.

    Returns:
        Where the page is: without options the same bytes as the audit wrote, as long as neither
        this package nor the verdict changed, and people added nothing.
    """
    page = run.path("report.html")
    tables = _write(run, page, page_document(run, images=images, blur=blur))
    changed = [*run.rewritten("report", page), *tables]
    run.publish(*changed)
    checksums.amend(run.mirror, [path.relative_to(run.root).as_posix() for path in changed])
    return page


def page_document(
    run: Run, part: str = "page", *, images: bool = True, blur: bool = False
) -> Document:
    """Make what the page of a finished audit shows, with the verdict of its gate.json.

    Args:
        run: Its folder; nothing outside it is read.
        part: `page` for all, or one section of it.
        images: Show images.
        blur: Show them as a few large squares each, from which nobody is recognised.

    Raises:
        ConfigError: The page has no such section.
        DataError: The audit has not ended, has no gate.json, or what it left was changed.
    """
    audit, measured, gate = map(run.path, ("audit.json", "measurements.json", "gate.json"))
    beside = [run.costs, run.strip, layers_file(run), _kept(run), run.path("newest.json")]
    read = (audit, gate, measured, *beside)
    run.fetch(*read)
    content = read_audit(audit, run.mirror.place(audit))
    checksums.refuse_changed(run.mirror, [one.relative_to(run.root).as_posix() for one in read])
    content, place = _with_rates(run, content), run.mirror.place(gate)
    again = f"run scotoma gate {run.place}"
    if not gate.exists():
        raise DataError(f"{place} is not there; {again}")
    judged = read_gate(gate, place)
    if judged.audit_sha256 != file_digest(audit):
        raise DataError(f"{place} must judge the audit beside it, got another; {again}")
    with_versions = read_json(measured).get("versions", {}) if measured.exists() else {}
    document = _document(run, content, judged, with_versions, blur=blur, images=images)
    parts = {"page": document.sections, **{one.id: [one] for one in document.sections}}
    if part not in parts:
        raise ConfigError(
            f"part must be examples, paper:NAME, {', '.join(parts)}, got {quoted(part)}"
            f"{nearest(part, parts, ONE_OF_THEM)}"
        )
    return replace(document, sections=parts[part])


def write_gallery(run: Run, folder: Path, variant: str | None) -> str:
    """Write pages of every CIE, each beside an unchanged example of its class.

    Args:
        run: A finished audit.
        folder: Where to; it must be new or empty.
        variant: One compressed variant; None for all.

    Returns:
        A note of how many there are.

    Raises:
        ConfigError: The folder holds something, or there is no such variant.
        DataError: The audit has not ended, or was changed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out needs a new or empty folder, got {quoted(str(folder))}")
    from scotoma.divergence.gallery_section import gallery_documents
    from scotoma.document.html import html_page
    from scotoma.steps.measures.gallery import gallery_pairs

    audit_file, scores_file = run.path("audit.json"), run.path("divergence.parquet")
    require_files(run, audit_file, scores_file, run.examples)
    audit = read_audit(audit_file, run.mirror.place(audit_file))
    names = [one.name for one in audit.compressed]
    names = [compressed_variant(run, variant).name] if variant else names
    scores = pl.read_parquet(scores_file, glob=False)
    test = AuditedExamples.read(run.examples, images=False, split="test")
    seed = run.config.population.seed
    pairs = {
        name: [
            GalleryPair.model_validate(pair)
            for pair in gallery_pairs(scores.filter(variant=name), test, seed, most=None)
        ]
        for name in names
    }
    documents = gallery_documents(audit, pairs, _shrunk(run, _card_ids(pairs)))
    pages = {name: html_page(document) for name, document in documents.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        write_whole(folder / name, text)
    count = sum(map(len, pairs.values()))
    return f"gallery {count:,} CIEs on {len(pages) - 1:,} pages, works offline"


def _with_rates(run: Run, audit: Audit) -> Audit:
    """The audit with the recall of the classes that the page shows."""
    if audit.class_rates is None:
        return audit
    from scotoma.impact.classes_section import shown_classes
    from scotoma.steps.measures.rates import with_class_rates

    wanted = pl.any_horizontal(
        pl.col("variant").eq(one.name) & pl.col("class").is_in(shown_classes(audit, one.name))
        for one in audit.compressed
    )
    everyone = pl.col("group") == audit.groups[0].key
    return with_class_rates(run.mirror, audit, everyone & wanted)


def _document(
    run: Run,
    audit: Audit,
    gate: GateResult,
    made_with: Mapping[str, str],
    *,
    blur: bool,
    images: bool,
) -> Document:
    from scotoma.report import audit_document

    run.fetch(run.costs)
    costs = read_json(run.costs) if run.costs.exists() else {}
    if run.config.deterministic:  # what differs from run to run and from day to day stays outside
        costs = {name: {**measured, "latency": None} for name, measured in costs.items()}
        made_with = {}
    strip = run.strip.read_bytes() if audit.robustness and run.strip.exists() else None
    texts = compared_texts(run) if images else {}
    rows = frontier_rows(audit, gate, costs)
    layers = read_layers(layers_file(run)).variants if layers_file(run).exists() else {}
    shown, remark = _shown(_kept(run), blur=blur) if images else ({}, "Images are left out.")
    if blur and images:
        remark = BLURRED
    people = _people(run)
    beside = Beside(rows, dict(made_with), run.newest, strip, texts, people, layers, shown, remark)
    return audit_document(audit, gate, beside)


def _write(run: Run, page: Path, document: Document) -> list[Path]:
    """Write the page, and its tables as CSV files, which are returned."""
    from scotoma.report import csv_tables, render

    write_whole(page, render(document))
    tables = {run.path(*name.split("/")): one for name, one in csv_tables(document).items()}
    for path, table in tables.items():
        # A mark at the start tells spreadsheets that it is UTF-8.
        write_whole(path, table.csv().encode("utf-8-sig", "replace"))
    return list(tables)


def _people(run: Run) -> People:
    """Read what people added to the run, which its checksums do not cover."""
    results = sorted(run.path("studies").glob("*/result.json"))
    studies = tuple((path.parent.name, read_study(path)) for path in results)
    path = run.path("reviewed", "audit.json")
    run.fetch(path)
    reviewed = read_reviewed(path) if path.exists() else None
    outdated = bool(reviewed and reviewed.audit_sha256 != file_digest(run.path("audit.json")))
    return People(studies, reviewed, outdated)


def _kept(run: Run) -> Path:
    return run.path("thumbnails.parquet")


def _shrunk(run: Run, example_ids: list[str]) -> dict[str, bytes]:
    """Small images by example id."""
    images = sorted(images_of(run, example_ids).items())
    return {name: pixels for name, data in images if (pixels := shrunk(data))}


def _keep(path: Path, images: Mapping[str, bytes]) -> None:
    schema = {"example_id": pl.String, "image": pl.Binary}
    table = pl.DataFrame([*images.items()], schema=schema, orient="row")
    with written(path) as temporary:
        table.write_parquet(temporary)


def _shown(path: Path, *, blur: bool) -> tuple[dict[str, bytes], str]:
    if not path.exists():
        return {}, "The run's folder holds no images."
    rows = dict(pl.read_parquet(path, glob=False).iter_rows())
    if blur:
        rows = {name: blurred(data) for name, data in rows.items()}
    return rows, ""


def images_of(run: Run, example_ids: list[str]) -> dict[str, bytes]:
    """Encoded images by example id; an example without one is left out."""
    shown = AuditedExamples.read(run.examples, only=example_ids).table
    if "image" in shown.columns:
        rows = shown.select("example_id", "image").iter_rows()
        return {example_id: image["bytes"] for example_id, image in rows if image is not None}
    folder = run.config.source.folder_of_pictures
    if "image_name" in shown.columns and folder:
        names = dict(shown.select("example_id", "image_name").iter_rows())
        return named_images(folder, names)
    return {}


def _pictures(run: Run) -> str:
    """SHA-256 of the images that the table of examples names; empty where it names none."""
    audit = run.path("audit.json")
    if not (folder := run.config.source.folder_of_pictures):
        return ""
    run.fetch(audit, run.examples)
    if not (audit.exists() and run.examples.exists()):
        return ""  # which the step refuses
    shown = AuditedExamples.read(run.examples, only=_in_gallery(read_audit(audit))).table
    if "image_name" not in shown.columns:
        return ""
    files = picture_files(folder, shown["image_name"].to_list())
    return examine({"examples": files}, Sources()).key("examples")


def _in_gallery(audit: Audit) -> list[str]:
    """Ids of the examples whose images the page shows."""
    return _card_ids(audit.gallery)


def _card_ids(gallery: Mapping[str, Sequence[GalleryPair]]) -> list[str]:
    cards = (card for pairs in gallery.values() for one in pairs for card in (one.cie, one.non_cie))
    return sorted({card.example_id for card in cards if card is not None})
