"""What are a ground truth and a detector's answers, as arrays?

An image without a detection is an answer: nothing was found there. Tools list only images with
boxes, so that one which is absent from their results is an image without a detection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.answers.note import AdmissionNote
from scotoma.numbers.inputs import Codes, Flags, Floats


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """The boxes that annotators drew.

    Attributes:
        image_ids: Id of each image, in the order of the ids.
        image_names: File of each image; empty where it is not known.
        image_sizes: Width and height in pixels, shape (I, 2); nan where they are not known.
        classes: Name of each class, in the order of its id.
        class_ids: Id of each class.
        box_ids: Id of each box.
        image: Number of each box's image, shape (G,).
        category: Number of each box's class, shape (G,).
        box: Left, top, width and height in pixels, shape (G, 4).
        area: Pixels of each object: of its mask where the annotation has one, shape (G,).
        crowd: Whether a box stands for a crowd, in which any number may be found, shape (G,).
        notes: What was guessed or is unusual.
    """

    image_ids: tuple[str, ...]
    image_names: tuple[str, ...]
    image_sizes: Floats
    classes: tuple[str, ...]
    class_ids: tuple[str, ...]
    box_ids: tuple[str, ...]
    image: Codes
    category: Codes
    box: Floats
    area: Floats
    crowd: Flags
    notes: tuple[AdmissionNote, ...] = ()

    @property
    def images(self) -> int:
        """Number of images, with boxes or without."""
        return len(self.image_ids)

    @property
    def examples(self) -> Codes:
        """Numbers of the boxes that can be found or missed: all but crowds."""
        return np.flatnonzero(~self.crowd)


@dataclass(frozen=True, eq=False)
class Detections:
    """What a detector found, in the order of its file.

    Attributes:
        image: Number of each detection's image in the ground truth, shape (D,).
        category: Number of its class, shape (D,).
        box: Left, top, width and height in pixels, shape (D, 4).
        score: Its confidence, shape (D,).
        notes: What was guessed or is unusual.
        numbering: From where on its file numbers classes; empty where it has the ids of the ground
            truth. Files that are compared must have it in common.
    """

    image: Codes
    category: Codes
    box: Floats
    score: Floats
    notes: tuple[AdmissionNote, ...] = ()
    numbering: str = ""
