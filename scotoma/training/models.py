"""Which network does a name stand for?"""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from scotoma.config.own_code import error_line, function_of, is_code
from scotoma.errors import ConfigError
from scotoma.training.residual_networks import cifar_resnet, cifar_resnet18, wide_resnet
from scotoma.training.speedrun import speedrun


@runtime_checkable
class Prepares(Protocol):
    """A layer that looks at training images before the first step."""

    def prepare(self, images: torch.Tensor) -> None:
        """Set weights from normalised images, shape (N, 3, H, W)."""


def tiny_convnet(classes: int, *, width: int = 48) -> torch.nn.Module:
    """Build two wide convolutions for images of 8x8 to 16x16 pixels.

    Wide and shallow on purpose: at 95% sparsity a narrow first layer of 432 weights would keep 22
    of them, and the network would collapse instead of showing whom it sacrifices.

    Args:
        classes: Number of outputs.
        width: Channels of the first convolution; the second has twice as many.

    Returns:
        A network from (B, 3, H, W) to (B, classes).
    """
    return nn.Sequential(
        nn.Conv2d(3, width, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


BUILT_IN: dict[str, Callable[[int], nn.Module]] = {
    "tiny-convnet": tiny_convnet,
    "resnet8": partial(cifar_resnet, 8),
    "resnet14": partial(cifar_resnet, 14),
    "resnet20": partial(cifar_resnet, 20),
    "cifar-resnet18": cifar_resnet18,
    "speedrun": speedrun,
    "wrn-22-8": partial(wide_resnet, 22, 8),
    "wrn-28-10": partial(wide_resnet, 28, 10),
}


def build_model(name: str, classes: int, seed: int) -> torch.nn.Module:
    """Build a freshly initialised network.

    Args:
        name: One of `BUILT_IN`, a classifier of torchvision, or `package.module:function`.
        classes: Number of outputs.
        seed: Decides the initial weights, and nothing else.

    Returns:
        The network, in training mode.

    Raises:
        ConfigError: No network has this name, it draws random numbers in training, or it is the
            user's own and not allowed here or not what it should be.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name in BUILT_IN:
            return BUILT_IN[name](classes)
        model = (
            build_user_network(name, classes) if is_code(name) else _of_torchvision(name, classes)
        )
    for child in model.modules():
        if _draws_random_numbers(child):
            raise ConfigError(
                f"source.model {name!r} draws random numbers in training "
                f"({type(child).__name__}), which no seed of the audit decides; choose one "
                "without, such as 'resnet18'"
            )
    return model


def prepare_layers(model: torch.nn.Module, images: Callable[[], torch.Tensor]) -> None:
    """Show training images to the layers that prepare on some.

    Args:
        model: A fresh network; changed in place.
        images: Returns normalised images, shape (N, 3, H, W); called if any layer prepares.
    """
    for layer in model.modules():
        if isinstance(layer, Prepares):
            layer.prepare(images())


def _draws_random_numbers(layer: nn.Module) -> bool:
    if "torchvision" in sys.modules:  # else nothing is of its kinds, and its import takes seconds
        from torchvision.ops import StochasticDepth

        if isinstance(layer, StochasticDepth):
            return bool(layer.p > 0)
    return isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0


def _of_torchvision(name: str, classes: int) -> nn.Module:
    from torchvision import models as zoo

    if name not in zoo.list_models(module=zoo):
        raise ConfigError(
            f"source.model {name!r} is neither one of {', '.join(BUILT_IN)} nor a classifier of "
            "torchvision, such as 'resnet18'"
        )
    model: nn.Module = zoo.get_model(name, weights=None, num_classes=classes)
    return model


LIMIT_S = 120  # for the network to be made, which may load weights, and again for two images


class Endless(BaseException):
    """The time is over. Not an Exception, which the user's code may catch."""


def build_user_network(name: str, classes: int) -> torch.nn.Module:
    """Call the function of this name with the number of classes.

    Raises:
        ConfigError: It cannot be called so, returns no network, or takes over two minutes.
    """
    try:
        with _in_time():
            network = function_of(name)(classes)
    except ConfigError:
        raise
    except Endless as error:
        raise ConfigError(
            f"source.model {name!r} must make a network of {classes} classes within {LIMIT_S} s, "
            "and did not; correct it"
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(
            f"source.model {name!r} raised {error_line(error)} when called with {classes} classes; "
            "correct it"
        ) from error
    if not isinstance(network, torch.nn.Module):
        raise ConfigError(
            f"source.model {name!r} must return a torch.nn.Module, got {type(network).__name__}"
        )
    return network.train()


def try_outputs(model: torch.nn.Module, name: str, classes: int, shape: tuple[int, ...]) -> None:
    """Refuse a network that does not give one score a class for images of a size.

    Args:
        model: The network; left as it is.
        name: What messages call it.
        classes: Number of classes.
        shape: Height and width of an image.

    Raises:
        ConfigError: It raises, gives something else, or nothing in two minutes.
    """
    training = model.training
    try:
        with torch.no_grad(), _in_time():
            outputs = model.eval()(torch.zeros(2, 3, *shape))
    except Endless as error:
        raise ConfigError(
            f"source.model {name!r} must give scores of two images of {shape[1]}x{shape[0]} pixels "
            f"within {LIMIT_S} s, and did not; make it faster"
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(
            f"source.model {name!r} raised {error_line(error)} on two images of "
            f"{shape[1]}x{shape[0]} pixels; make it accept this size"
        ) from error
    finally:
        model.train(training)
    shown = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
    if shown != (2, classes):
        raise ConfigError(
            f"source.model {name!r} must give scores of shape {(2, classes)} for two images and "
            f"{classes} classes, got {shown}; correct its last layer"
        )


@contextmanager
def _in_time() -> Iterator[None]:
    """End the code in this block after its time, or the process if it does not react.

    Raises:
        Endless: The time is over. Code that is stuck in a library gets no signal: after twice the
            time the process ends, with its traceback on stderr.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where no signal arrives; the steps of an audit make networks in main threads
        return

    def over(_number: int, _frame: FrameType | None) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    faulthandler.dump_traceback_later(2 * LIMIT_S, exit=True, file=2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
