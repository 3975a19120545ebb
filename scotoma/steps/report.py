"""The page of an audit: drawn when the audit ends, and drawn again from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from scotoma import progress
from scotoma.audit import Audit, GateResult, read_audit, read_gate, read_part
from scotoma.audit.layers import read_layers
from scotoma.audit.reviewed import ReviewedAudit, read_reviewed
from scotoma.audit.rows import NUMBERS
from scotoma.audit.study import StudyResult, read_study
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.processes.machine import versions
from scotoma.run import Run, checksums, read_json
from scotoma.run.sources import Sources, examine
from scotoma.steps.inputs.texts import compared_texts
from scotoma.steps.judging.frontier import frontier_rows
from scotoma.steps.layers.one_at_a_time import layers_file, write_layers
from scotoma.steps.robustness.files import strip_file
from scotoma.storage.files import file_digest, written

__all__ = ["draw", "images_of", "report"]


def report(run: Run) -> list[Path]:
    """Put every number and the verdict onto one page, and leave the images that it shows."""
    audit, gate, page = run.path("audit.json"), run.section("verdict"), run.path("report.html")
    kept = _kept(run)
    inputs = [run.examples, audit, gate, run.path(NUMBERS)]
    robustness = run.config.robustness
    inputs += [strip_file(run)] if robustness and robustness.profile is not None else []
    with run.step("report", [page, kept], inputs, made_with=_pictures(run)) as due:
        if due:
            progress.start("write report", 1)
            content = _with_rates(run, read_audit(audit))
            judged = read_part(gate, GateResult)
            _keep(kept, images_of(run, _in_gallery(content)))
            run.publish(*write_layers(run, judged))
            tables = _write(run, page, content, judged, versions(), blur=False, images=True)
            run.publish(*tables)
            progress.advance("write report")
    return [page, kept]


def draw(run: Run, *, images: bool = True, blur: bool = False) -> Path:
    """Draw the page of a finished audit again, with the verdict of its gate.json.

    Args:
        run: Its folder; nothing outside it is read.
        images: Show images.
        blur: Show them as a few large squares each, from which nobody is recognised.

    Returns:
        Where the page is: without options the same bytes as the audit wrote, as long as neither
        this package nor the verdict changed, and people added nothing.

    Raises:
        DataError: The audit has not ended, has no gate.json, or what it left was changed.
        MissingExtra: Pillow is not installed, and images are to be blurred.
    """
    page, audit = run.path("report.html"), run.path("audit.json")
    measured, gate = run.path("measurements.json"), run.path("gate.json")
    run.fetch(
        audit, measured, gate, _kept(run), run.costs, run.path("newest.json"), strip_file(run)
    )
    run.fetch(layers_file(run))
    if not audit.exists():
        raise DataError(f"{run.mirror.place(audit)} is not there; let scotoma audit end first")
    if not gate.exists():
        raise DataError(f"{run.mirror.place(gate)} is not there; run scotoma gate {run.place}")
    read = ("audit.json", "gate.json", "thumbnails.parquet", "measurements.json", "newest.json")
    beside = (
        path.relative_to(run.root).as_posix()
        for path in (run.costs, strip_file(run), layers_file(run))
    )
    checksums.refuse_changed(run.mirror, (*read, *beside))
    content = _with_rates(run, read_audit(audit, run.mirror.place(audit)))
    judged = read_gate(gate, run.mirror.place(gate))
    if judged.audit_sha256 != file_digest(audit):
        raise DataError(
            f"{run.mirror.place(gate)} must judge the audit beside it, got another; run "
            f"scotoma gate {run.place}"
        )
    with_versions = read_json(measured).get("versions", {}) if measured.exists() else {}
    tables = _write(run, page, content, judged, with_versions, blur=blur, images=images)
    changed = [*run.rewritten("report", page), *tables]
    run.publish(*changed)
    checksums.amend(run.mirror, [path.relative_to(run.root).as_posix() for path in changed])
    return page


def _with_rates(run: Run, audit: Audit) -> Audit:
    """The audit with the recall of the classes that the page shows."""
    if audit.class_rates is None:
        return audit
    from scotoma.impact.classes_section import shown_classes
    from scotoma.steps.measures.rates import with_class_rates

    everyone = pl.col("group") == audit.groups[0].key
    wanted = [
        (pl.col("variant") == variant.name)
        & everyone
        & pl.col("class").is_in(shown_classes(audit, variant.name))
        for variant in audit.compressed
    ]
    return with_class_rates(run.mirror, audit, pl.any_horizontal(wanted))


def _write(
    run: Run,
    page: Path,
    audit: Audit,
    gate: GateResult,
    made_with: Mapping[str, str],
    *,
    blur: bool,
    images: bool,
) -> list[Path]:
    """Write the page, and its tables as CSV files, which are returned."""
    from scotoma.audit.findings import Beside, People
    from scotoma.datasets import thumbnails
    from scotoma.report import audit_document, csv_tables, render

    run.fetch(run.costs)
    costs = read_json(run.costs) if run.costs.exists() else {}
    if run.config.deterministic:  # what differs from run to run and from day to day stays outside
        costs, made_with = _sizes(costs), {}
    strip = strip_file(run).read_bytes() if audit.robustness and strip_file(run).exists() else None
    texts = compared_texts(run) if images else {}
    rows, people = frontier_rows(audit, gate, costs), People(*_people(run))
    layers = read_layers(layers_file(run)).variants if layers_file(run).exists() else {}
    beside = Beside(rows, dict(made_with), run.newest, strip, texts, people, layers)
    shown, remark = _shown(_kept(run), blur=blur) if images else ({}, "Images are left out.")
    if blur and images:
        remark = thumbnails.BLURRED
    document = audit_document(audit, gate, beside, shown, remark)
    with written(page) as temporary:
        temporary.write_text(render(document), encoding="utf-8")
    tables = {run.path(*name.split("/")): one for name, one in csv_tables(document).items()}
    for path, table in tables.items():
        path.parent.mkdir(exist_ok=True)
        with written(path) as temporary:
            # A mark at the start tells spreadsheets that it is UTF-8.
            temporary.write_bytes(table.csv().encode("utf-8-sig", "replace"))
    return list(tables)


def _people(run: Run) -> tuple[tuple[tuple[str, StudyResult], ...], ReviewedAudit | None, bool]:
    """Read what people added to the run, which its checksums do not cover."""
    results = sorted(run.path("studies").glob("*/result.json"))
    studies = tuple((path.parent.name, read_study(path)) for path in results)
    path = run.path("reviewed", "audit.json")
    run.fetch(path)
    reviewed = read_reviewed(path) if path.exists() else None
    outdated = bool(reviewed and reviewed.audit_sha256 != file_digest(run.path("audit.json")))
    return studies, reviewed, outdated


def _sizes(costs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {**measured, "latency": None} for name, measured in costs.items()}


def _kept(run: Run) -> Path:
    return run.path("thumbnails.parquet")


def _keep(path: Path, images: Mapping[str, bytes]) -> None:
    from scotoma.datasets.thumbnails import shrunk

    small = {name: pixels for name, data in sorted(images.items()) if (pixels := shrunk(data))}
    table = pl.DataFrame(
        {"example_id": list(small), "image": list(small.values())},
        schema={"example_id": pl.String, "image": pl.Binary},
    )
    with written(path) as temporary:
        table.write_parquet(temporary)


def _shown(path: Path, *, blur: bool) -> tuple[dict[str, bytes], str]:
    if not path.exists():
        return {}, "The run's folder holds no images."
    rows = dict(pl.read_parquet(path, glob=False).iter_rows())
    if blur:
        from scotoma.datasets.thumbnails import blurred

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
        from scotoma.steps.external.pictures import named_images

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
    from scotoma.steps.external.pictures import picture_files

    files = picture_files(folder, shown["image_name"].to_list())
    return examine({"examples": files}, Sources()).key("examples")


def _in_gallery(audit: Audit) -> list[str]:
    """Ids of the examples whose images the page shows."""
    return sorted(
        {
            card.example_id
            for pairs in audit.gallery.values()
            for pair in pairs
            for card in (pair.cie, pair.non_cie)
            if card is not None
        }
    )
