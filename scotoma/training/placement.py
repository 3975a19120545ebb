"""Where are members trained, and where do their images lie meanwhile?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scotoma.datasets import IndexedImages

PROCESSOR = torch.device("cpu")

# On a GPU, where the pass is compiled once for all of them; halved wherever memory runs out.
MEMBERS_IN_FLIGHT = 8
# Share of the device's free memory that images may take. The rest is for training.
IMAGES_SHARE = 0.4

# Numbers of rows to their pixels, uint8, shape (B, 3, H, W), on the device.
RowReader = Callable[[NDArray[np.int64]], Tensor]


def training_device() -> torch.device:
    """Choose the GPU that torch sees first, else the processor."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else PROCESSOR


def device_name(device: torch.device) -> str:
    """Name a device for a member's record.

    >>> device_name(PROCESSOR)
    'cpu'
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def batches_from(
    images: IndexedImages, device: torch.device, *, room: float | None = None
) -> RowReader:
    """Build the look-up that brings pixels of a batch to a device.

    Args:
        images: An array, or images that are decoded when they are read.
        device: Where they are wanted.
        room: Bytes that they may take there for good; None for two fifths of what is free on a
            GPU, and for nothing on the processor, where they lie already.

    Returns:
        A look-up on the device, where images that fit are sent once; for others, a look-up here
        whose result is sent.

    >>> images = np.arange(12, dtype=np.uint8).reshape(4, 3, 1, 1)
    >>> batches_from(images, torch.device("cpu"))(np.array([3, 0]))[:, 0, 0, 0].tolist()
    [9, 0]
    """
    if room is None:
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
        room = IMAGES_SHARE * free
    if isinstance(images, np.ndarray) and images.nbytes <= room:
        resident = torch.from_numpy(images).to(device)
        return lambda rows: resident[sent(rows, device)]
    return lambda rows: sent(images[rows], device)


def sent(array: NDArray[Any], device: torch.device) -> Tensor:
    """Send an array to a device; the processor does not wait for a GPU to have it.

    >>> sent(np.arange(3), PROCESSOR)
    tensor([0, 1, 2])
    """
    here = torch.from_numpy(array)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here
