"""Which sources are there? One line each; the configuration, its schema and messages follow."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Field

from scotoma.sources.celeba import CelebaSource
from scotoma.sources.cifar10 import Cifar10Source
from scotoma.sources.coco import CocoSource
from scotoma.sources.detections import DetectionsSource
from scotoma.sources.digits import DigitsSource
from scotoma.sources.folder import FolderSource
from scotoma.sources.imsitu import ImsituSource
from scotoma.sources.onnx import OnnxSource
from scotoma.sources.parquet import ParquetSource
from scotoma.sources.predictions import PredictionsSource
from scotoma.sources.scores import ScoresSource

AnySource = Annotated[
    DigitsSource
    | FolderSource
    | ParquetSource
    | CelebaSource
    | CocoSource
    | ImsituSource
    | Cifar10Source
    | OnnxSource
    | PredictionsSource
    | DetectionsSource
    | ScoresSource,
    Field(discriminator="kind"),
]
SOURCES = get_args(get_args(AnySource)[0])
KINDS = {kind: one for one in SOURCES for kind in get_args(one.model_fields["kind"].annotation)}


def with_implied(content: Any) -> Any:
    """Spell out what a kind of source implies for the rest of a configuration.

    Args:
        content: A configuration as it was written; what it says itself stays.

    >>> with_implied({"source": {"kind": "detections"}})["cluster"]
    {'column': 'image_id'}
    >>> with_implied({"source": {"kind": "scores"}})["label"]
    'none'
    >>> with_implied({"source": {"kind": "generic", "table": "t.csv"}})["source"]
    {'kind': 'predictions', 'files': 't.csv', 'examples': 't.csv'}
    """
    match content:
        case {"source": {"kind": "generic", **others}}:
            table = others.pop("table", None)
            both = dict.fromkeys(() if table is None else ("files", "examples"), table)
            return content | {"source": {"kind": "predictions"} | both | others}
        case {"source": {"kind": str(kind)}} if kind in KINDS:
            return {**KINDS[kind].implies, **content}
    return content
