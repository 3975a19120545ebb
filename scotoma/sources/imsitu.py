"""What does somebody do in each image of imSitu, and does the annotation name a woman or a man?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field

from scotoma import storage
from scotoma.config.limits import ReaderLimits
from scotoma.datasets.coco_labels import GENDER, caption_gender
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes.untrusted import table_apart
from scotoma.sources.annotated import (
    ONE_GENDER,
    AnnotatedSource,
    SplitName,
    refuse_absent_annotations,
)
from scotoma.sources.contract import FolderPlace

IMAGES = "of500_images_resized"
AGENT = "agent"
AGAIN = "download it again from its authors"


class ImsituSource(AnnotatedSource):
    """ImSitu as its authors publish it: what somebody does in an image, and who.

    `train.json`, `dev.json`, `test.json`, `imsitu_space.json` and `of500_images_resized/`. Column
    `gender` is female or male where the words for the agent name women only or men only, else
    missing. Tested on files made by hand in this layout, not on imSitu itself.
    """

    kind: Literal["imsitu"]
    data: FolderPlace = Field(
        description="Folder of of500_images_resized, imsitu_space.json and SPLIT.json."
    )
    train: SplitName = Field("train", description="Split that members are trained on.")
    test: SplitName = Field("test", description="Split that is audited.")
    one_gender: bool = Field(False, description=ONE_GENDER.format("agents"))

    def image_folder(self) -> str:
        return storage.join(self.data, IMAGES)

    def annotation_files(self) -> list[str]:
        return [f"{self.train}.json", f"{self.test}.json", "imsitu_space.json"]

    def read_split(self, name: str, limits: ReaderLimits) -> pl.DataFrame:
        file, space = (storage.join(self.data, f"{part}.json") for part in (name, "imsitu_space"))
        for part in (name, "imsitu_space"):
            place = storage.join(self.data, f"{part}.json")
            refuse_absent_annotations(place, f"{self.data} must hold {part}.json")
        with storage.at_hand(file) as path, storage.at_hand(space) as nouns:
            larger = max(path, nouns, key=lambda one: one.stat().st_size)
            return table_apart(
                situations, path, nouns, file, space, path=larger, called=file, limits=limits
            )


def situations(path: Path, space: Path, called: str, space_called: str) -> pl.DataFrame:
    """Read the verb of each image, and the gender of its agent.

    Args:
        path: A split: JSON of an object with, for each image, its `verb` and `frames`.
        space: imsitu_space.json: `nouns`, each with its `gloss`.
        called: What messages call the split.
        space_called: What messages call the space.

    Returns:
        One row an image: `example_id`, its file name; `verb`; and `gender`, female or male, if the
        words for the agent, of all annotators together, name one of them as `caption_gender` does.

    Raises:
        DataError: A file is not what it should be.

    References:
        Yatskar, Zettlemoyer, Farhadi (2016), "Situation Recognition". The rule of gender is ours.
    """
    images, nouns = _read(path, called), _read(space, space_called).get("nouns")
    rows = []
    try:
        glosses = {str(key): " ".join(own["gloss"]) for key, own in (nouns or {}).items()}
        for name, own in images.items():
            agents = [glosses.get(str(frame.get(AGENT, "")), "") for frame in own["frames"]]
            rows.append((name, str(own["verb"]), caption_gender(" ".join(agents))))
    except (KeyError, TypeError, AttributeError) as error:
        fault = f"one lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"{printable(called)} must give each image its verb and frames, and "
            f"{printable(space_called)} each noun its gloss ({printable(fault)[:120]}); {AGAIN}"
        ) from error
    columns = ("example_id", "verb", GENDER)
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def _read(path: Path, called: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{printable(called)} must hold JSON, and does not; {AGAIN}") from error
    if not isinstance(content, dict):
        raise DataError(f"{printable(called)} must hold a JSON object; {AGAIN}")
    return content
