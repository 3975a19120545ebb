"""The user's own network: made by a function of theirs, and checked before it is trained."""

from __future__ import annotations

import torch

from scotoma.errors import ConfigError
from scotoma.own_code import function_of, said

__all__ = ["own_network", "try_outputs"]


def own_network(name: str, classes: int) -> torch.nn.Module:
    """What the function that a name stands for makes of the number of classes.

    Raises:
        ConfigError: It cannot be called so, or makes no network.
    """
    function = function_of(name)
    try:
        made = function(classes)
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(
            f"source.model {name!r} raised {said(error)} when called with {classes} classes; "
            "correct it"
        ) from error
    if not isinstance(made, torch.nn.Module):
        raise ConfigError(
            f"source.model {name!r} must return a torch.nn.Module, got {type(made).__name__}"
        )
    return made.train()


def try_outputs(model: torch.nn.Module, name: str, classes: int, shape: tuple[int, ...]) -> None:
    """Refuse a network that does not give one score a class for images of a size.

    Args:
        model: The network; left as it is.
        name: What messages call it.
        classes: Number of classes.
        shape: Height and width of an image.

    Raises:
        ConfigError: It raises, or gives something else.
    """
    training = model.training
    try:
        with torch.no_grad():
            outputs = model.eval()(torch.zeros(2, 3, *shape))
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(
            f"source.model {name!r} raised {said(error)} on two images of {shape[1]}x{shape[0]} "
            "pixels; make it take them"
        ) from error
    finally:
        model.train(training)
    found = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
    if found != (2, classes):
        raise ConfigError(
            f"source.model {name!r} must give scores of shape {(2, classes)} for two images and "
            f"{classes} classes, got {found}; correct its last layer"
        )
