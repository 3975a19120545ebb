"""Which sources are there? One line each; the configuration, its schema and messages follow."""

from __future__ import annotations

from typing import Annotated, get_args

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
