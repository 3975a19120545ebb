"""Which feature map of a network do the adversaries of A4 and A5 read?"""

from __future__ import annotations

import copy

import torch
from torch import nn

# Of built-in networks: places of the layers whose outputs stand for ResNet's stages 3 and 4.
PLACES = {9: {3: 2, 4: 5}, 12: {3: 8, 4: 10}}  # by length: tiny-convnet, cifar-resnet18


def map_layer(model: nn.Module, stage: int) -> nn.Module:
    """Find the layer whose output is the map of a stage.

    Args:
        model: A ResNet of torchvision, `cifar-resnet18`, or `tiny-convnet`, whose two ReLUs stand
            for the stages.
        stage: 3 for A4, 4 for A5.

    Raises:
        ValueError: The network has no such stages.

    >>> from scotoma.training.models import build_model
    >>> type(map_layer(build_model("tiny-convnet", 2, 0), 4)).__name__
    'ReLU'
    """
    layer = getattr(model, f"layer{stage}", None)
    if isinstance(layer, nn.Module):
        return layer
    if isinstance(model, nn.Sequential) and len(model) in PLACES:
        return model[PLACES[len(model)][stage]]
    raise ValueError("a network without the stages of a ResNet has no such map")


def map_size(model: nn.Module, stage: int, image_shape: tuple[int, ...]) -> int:
    """Count the values of a stage's map of one image.

    Args:
        model: See `map_layer`; left as it is.
        stage: 3 or 4.
        image_shape: (3, H, W).

    >>> from scotoma.training.models import build_model
    >>> map_size(build_model("tiny-convnet", 2, 0), 4, (3, 16, 16))
    1536
    """
    own, sizes = copy.deepcopy(model).eval(), []
    map_layer(own, stage).register_forward_hook(lambda _, inputs, output: sizes.append(output[0]))
    with torch.inference_mode():
        own(torch.zeros(1, *image_shape, device=next(own.parameters()).device))
    return int(sizes[0].numel())
