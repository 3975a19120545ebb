"""`scotoma examples --html`: every changed example as a folder of pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from scotoma.audit import read_audit
from scotoma.audit.document import GalleryPair
from scotoma.commands.shared.finished_run import open_run
from scotoma.datasets import AuditedExamples
from scotoma.errors import ConfigError, DataError
from scotoma.printable import ONE_OF_THEM, nearest, quoted
from scotoma.run import checksums
from scotoma.storage.files import written

__all__ = ["write_gallery"]


def write_gallery(
    place: str, folder: Path, variant: str | None, others: Sequence[str], quiet: bool
) -> None:
    """Write pages of every CIE, each beside an unchanged example of its class.

    Args:
        place: Folder of a finished audit, or its `s3://BUCKET/PREFIX`.
        folder: Where to; it must be new or empty.
        variant: One compressed variant; None for all.
        others: Options that were given too and do not go with it.
        quiet: No messages.

    Raises:
        ScotomaError: The run, the folder or an option cannot be used.
    """
    if others:
        raise ConfigError(f"--html writes every CIE; leave {' and '.join(others)} out")
    if folder.exists() and (not folder.is_dir() or os.listdir(folder)):
        raise ConfigError(f"--html needs a new or empty folder, got {quoted(str(folder))}")
    from scotoma.datasets.thumbnails import shrunk
    from scotoma.divergence.gallery_section import gallery_documents
    from scotoma.document.html import html_page
    from scotoma.steps.measures.gallery import gallery_pairs
    from scotoma.steps.report import images_of

    run = open_run(place)
    audit_file, scores_file = run.path("audit.json"), run.path("divergence.parquet")
    run.fetch(audit_file, scores_file, run.examples)
    if not (audit_file.exists() and scores_file.exists()):
        raise DataError(f"{place} holds no finished audit; finish it first")
    checksums.refuse_changed(run.mirror, (audit_file.name, scores_file.name, run.examples.name))
    audit = read_audit(audit_file, run.mirror.place(audit_file))
    names = [one.name for one in audit.compressed]
    if variant is not None and variant not in names:
        raise ConfigError(
            f"--variant must be one of {', '.join(names)}, got {quoted(variant)}"
            f"{nearest(variant, names, ONE_OF_THEM)}"
        )
    scores = pl.read_parquet(scores_file, glob=False)
    test = AuditedExamples.read(run.examples, images=False, split="test")
    seed = run.config.population.seed
    pairs = {
        name: [
            GalleryPair.model_validate(pair)
            for pair in gallery_pairs(scores.filter(variant=name), test, seed, most=None)
        ]
        for name in ([variant] if variant else names)
    }
    cards = [card for of in pairs.values() for pair in of for card in (pair.cie, pair.non_cie)]
    ids = sorted({card.example_id for card in cards if card is not None})
    images = {name: small for name, data in images_of(run, ids).items() if (small := shrunk(data))}
    documents = gallery_documents(audit, pairs, images)
    pages = {name: html_page(document) for name, document in documents.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        with written(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{folder / 'index.html'}\n")
    if not quiet:
        count = sum(map(len, pairs.values()))
        sys.stderr.write(f"gallery {count:,} CIEs on {len(pages) - 1:,} pages, works offline\n")
