"""Build the user's own network by their function, and check it before it is trained."""

from __future__ import annotations

import faulthandler
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from scotoma.config.own_code import error_line, function_of
from scotoma.errors import ConfigError

__all__ = ["build_user_network", "try_outputs"]

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
