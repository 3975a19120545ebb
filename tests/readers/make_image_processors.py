"""Write files/hugging_face/image_processors.npz: what image processors of `transformers` make.

Run by hand with the file's name, transformers 5.24 and torchvision; no test needs these.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZES = [(31, 47), (64, 24), (40, 40)]  # width and height of pictures
SQUARE = {"height": 12, "width": 12}
HALF = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.5]}
PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTImageProcessor", {"size": SQUARE}),
    "vit_imagenet": ("ViTImageProcessor", {"size": SQUARE, "resample": 3, **HALF}),
    "vit_plain": ("ViTImageProcessor", {"size": SQUARE, "do_normalize": False}),
    "vit_pixels": ("ViTImageProcessor", {"size": SQUARE, "do_rescale": False}),
    "siglip": ("SiglipImageProcessor", {"size": SQUARE}),
    "beit": ("BeitImageProcessor", {"size": SQUARE}),
    "beit_crop": (
        "BeitImageProcessor",
        {"size": {"height": 16, "width": 16}, "crop_size": SQUARE, "do_center_crop": True},
    ),
    "deit": ("DeiTImageProcessor", {"size": {"height": 14, "width": 14}, "crop_size": SQUARE}),
    "pvt": ("PvtImageProcessor", {"size": {"height": 9, "width": 15}}),
    "clip": ("CLIPImageProcessor", {"size": {"shortest_edge": 12}, "crop_size": SQUARE}),
    "bit": ("BitImageProcessor", {"size": {"shortest_edge": 14}, "crop_size": SQUARE}),
    "mobilenet": (
        "MobileNetV2ImageProcessor", {"size": {"shortest_edge": 14}, "crop_size": SQUARE}
    ),
    "mobilenet_v1": (
        "MobileNetV1ImageProcessor", {"size": {"shortest_edge": 13}, "crop_size": SQUARE}
    ),
    "convnext": ("ConvNextImageProcessor", {"size": {"shortest_edge": 12}}),
    "convnext_pct": (
        "ConvNextImageProcessor", {"size": {"shortest_edge": 12}, "crop_pct": 0.6, "resample": 2}
    ),
    "convnext_384": ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}}),
    "poolformer": (
        "PoolFormerImageProcessor", {"size": {"shortest_edge": 12}, "crop_size": SQUARE}
    ),
    "poolformer_pct": (
        "PoolFormerImageProcessor",
        {"size": {"shortest_edge": 13}, "crop_size": SQUARE, "crop_pct": 0.7},
    ),
    "levit": ("LevitImageProcessor", {"size": {"shortest_edge": 12}, "crop_size": SQUARE}),
    "mobilevit": ("MobileViTImageProcessor", {"size": {"shortest_edge": 14}, "crop_size": SQUARE}),
    "mobilevit_rgb": (
        "MobileViTImageProcessor",
        {"size": {"shortest_edge": 14}, "crop_size": SQUARE, "do_flip_channel_order": False},
    ),
    "efficientnet": ("EfficientNetImageProcessor", {"size": SQUARE, **HALF}),
    "efficientnet_crop": (
        "EfficientNetImageProcessor",
        {"size": {"height": 18, "width": 18}, "crop_size": SQUARE, "do_center_crop": True, **HALF},
    ),
    "efficientnet_offset": (
        "EfficientNetImageProcessor",
        {"size": SQUARE, "rescale_offset": True, "rescale_factor": 1 / 127.5, "resample": 0}
        | HALF,
    ),
    "efficientnet_bare": (
        "EfficientNetImageProcessor", {"size": SQUARE, "include_top": False, **HALF}
    ),
}  # fmt: skip


def pictures() -> list[np.ndarray]:
    """Pictures with edges and noise, uint8, shape (H, W, 3)."""
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (height, width, 3)).astype(np.uint8) for width, height in SIZES]


def main(target: Path) -> None:
    """Run every processor on every picture."""
    import transformers

    arrays: dict[str, np.ndarray] = {}
    settings = {}
    for name, (kind, asked) in PROCESSORS.items():
        processor = getattr(transformers, f"{kind}Pil")(**asked)
        with tempfile.TemporaryDirectory() as folder:
            getattr(transformers, kind)(**asked).save_pretrained(folder)
            text = Path(folder, "preprocessor_config.json").read_text()
        settings[name] = json.loads(text)
        for place, picture in enumerate(pictures()):
            image = Image.fromarray(picture)
            values = processor(image, return_tensors="np")["pixel_values"][0]
            if values.shape[1] > 100:  # a sample of the large one
                values = values[:, ::32, ::32]
            arrays[f"{name} {place}"] = values.astype(np.float32)
    arrays["settings"] = np.array(json.dumps(settings))
    np.savez_compressed(target, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
