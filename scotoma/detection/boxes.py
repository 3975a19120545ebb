"""What are a ground truth and a detector's answers, as arrays?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Codes", "Detections", "Flags", "Floats", "GroundTruth"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


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
        notes: Sentences that a reader should know.
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
    notes: tuple[str, ...] = ()

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
        notes: Sentences that a reader should know.
    """

    image: Codes
    category: Codes
    box: Floats
    score: Floats
    notes: tuple[str, ...] = ()
