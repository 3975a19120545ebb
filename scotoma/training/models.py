"""Which network does a name stand for, and where are its feature maps?"""

from __future__ import annotations

import copy
import faulthandler
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import torch
from torch import Tensor, nn
from torch.nn import functional

from scotoma.config.own_code import error_line, function_of, is_code
from scotoma.errors import ConfigError


def _conv(inputs: int, outputs: int, stride: int = 1, *, size: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class _Basic(nn.Module):
    """Two convolutions and a shortcut; normalised after each convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = _conv(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            # A projection (option B of He et al.): what pads with zeros exports badly to ONNX.
            self.shortcut = nn.Sequential(
                _conv(inputs, outputs, stride, size=1), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: Tensor) -> Tensor:
        inner = functional.relu(self.bn1(self.conv1(images)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.shortcut(images))


class _PreActivated(nn.Module):
    """Two convolutions and a shortcut; normalised before each convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), _conv(inputs, outputs, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), _conv(outputs, outputs)
        self.shortcut = _conv(inputs, outputs, stride, size=1) if inputs != outputs else None

    def forward(self, images: Tensor) -> Tensor:
        active = functional.relu(self.bn1(images))
        inner = self.conv2(functional.relu(self.bn2(self.conv1(active))))
        # Zagoruyko and Komodakis project the activated input, and carry the raw one.
        carried: Tensor = images if self.shortcut is None else self.shortcut(active)
        total: Tensor = inner + carried
        return total


def _head(width: int, classes: int) -> nn.Module:
    """Take the mean over the image, then one linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def _stages(
    block: type[nn.Module], inputs: int, widths: tuple[int, ...], blocks: int
) -> list[nn.Module]:
    """Build stages of `blocks` blocks; every stage but the first halves the image."""
    layers: list[nn.Module] = []
    for stage, width in enumerate(widths):
        for index in range(blocks):
            layers.append(block(inputs, width, 2 if stage and not index else 1))
            inputs = width
    return layers


def _residual(widths: tuple[int, ...], blocks: int, classes: int) -> nn.Module:
    """Build a residual network that keeps small images at their size: 3x3, stride 1, no pooling."""
    stem = [_conv(3, widths[0]), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    stages = _stages(_Basic, widths[0], widths, blocks)
    return nn.Sequential(*stem, *stages, _head(widths[-1], classes))


def cifar_resnet(depth: int, classes: int) -> nn.Module:
    """ResNet-8, -14, -20 and so on, for 32x32 images.

    Args:
        depth: 6n + 2 layers.
        classes: Number of outputs.

    Returns:
        A network from (B, 3, H, W) to (B, classes).

    References:
        He et al. (2016), "Deep Residual Learning for Image Recognition", section 4.2, with
        projection shortcuts.

    >>> sum(p.numel() for p in cifar_resnet(20, 10).parameters())
    272474
    """
    if (depth - 2) % 6:
        raise ValueError(f"depth must be 6n + 2, got {depth}")
    return _residual((16, 32, 64), (depth - 2) // 6, classes)


def wide_resnet(depth: int, widen: int, classes: int) -> nn.Module:
    """WRN-depth-widen, without dropout.

    Args:
        depth: 6n + 4 layers.
        widen: Multiple of the channels 16, 32 and 64.
        classes: Number of outputs.

    Returns:
        A network from (B, 3, H, W) to (B, classes).

    References:
        Zagoruyko and Komodakis (2016), "Wide Residual Networks", table 1.

    >>> sum(p.numel() for p in wide_resnet(28, 10, 10).parameters())
    36479194
    """
    if (depth - 4) % 6:
        raise ValueError(f"depth must be 6n + 4, got {depth}")
    widths = (16 * widen, 32 * widen, 64 * widen)
    stages = _stages(_PreActivated, 16, widths, (depth - 4) // 6)
    tail = [nn.BatchNorm2d(widths[-1]), nn.ReLU(), _head(widths[-1], classes)]
    return nn.Sequential(_conv(3, 16), *stages, *tail)


SCORES = 1 / 9  # by which scores are multiplied, so that the last layer can take the same step size
REMEMBERED = 0.4  # share of a batch in the running statistics: there are few batches
IMAGES = 50  # whose patches are held at once
PATCH = 2  # pixels a side


class Whitening(nn.Module):
    """Patches of two by two pixels, without correlation and of variance 1.

    The filters are the principal directions of the patches of training images, each with its
    negative, divided by the standard deviation along them. They are computed, not trained; only
    an offset for each is trained.
    """

    filters: Tensor

    def __init__(self, floor: float = 1.25e-4) -> None:
        """Create filters that mean nothing before `prepare`.

        Args:
            floor: Added to each variance, so that what hardly varies is not blown up.
        """
        super().__init__()
        inputs, self.floor = 3 * PATCH**2, floor
        self.register_buffer("filters", torch.randn(2 * inputs, 3, PATCH, PATCH))
        self.offset = nn.Parameter(torch.zeros(2 * inputs))

    @torch.no_grad()
    def prepare(self, images: Tensor) -> None:
        """Compute the filters.

        Args:
            images: Normalised, shape (N, 3, H, W).
        """
        inputs, patches = self.filters[0].numel(), 0
        moments = images.new_zeros(inputs, inputs, dtype=torch.float64)
        for part in torch.split(images, IMAGES):
            held = functional.unfold(part, PATCH).double()  # (N, inputs, places)
            moments += torch.einsum("nip,njp->ij", held, held)
            patches += len(part) * held.shape[2]
        variances, directions = torch.linalg.eigh(moments / patches)
        filters = (directions / (variances + self.floor).sqrt()).T
        half = filters.flip(0).reshape(-1, *self.filters.shape[1:])
        self.filters.copy_(torch.cat([half, -half]))

    def forward(self, images: Tensor) -> Tensor:
        """Filter images (N, channels, H, W) to (N, 2 * inputs, H - 1, W - 1)."""
        return functional.conv2d(images, self.filters, self.offset)


class _Scaled(nn.Module):
    def forward(self, scores: Tensor) -> Tensor:
        return scores * SCORES


def speedrun(classes: int, *, widths: tuple[int, ...] = (64, 256, 256)) -> nn.Module:
    """Build a network that learns CIFAR-10 in a few epochs.

    Convolutions begin as the identity, normalisation has no scale to learn, and scores are small.

    Args:
        classes: Number of outputs.
        widths: Channels of each pair of convolutions; each halves the image.

    Returns:
        A network from (B, 3, H, W), 16x16 or larger, to (B, classes). Its first layer must
        `prepare` on training images.

    References:
        Jordan (2024), "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", section 3.

    >>> sum(p.numel() for p in speedrun(10).parameters())
    1971352
    """
    first = Whitening()
    layers, inputs = [first, nn.GELU()], len(first.offset)
    for width in widths:
        layers += [_convolution(inputs, width), nn.MaxPool2d(2), _normalisation(width), nn.GELU()]
        layers += [_convolution(width, width), _normalisation(width), nn.GELU()]
        inputs = width
    head = nn.Linear(inputs, classes, bias=False)
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), head, _Scaled())


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """Build a convolution whose first filters begin as the identity."""
    layer = _conv(inputs, outputs)
    nn.init.dirac_(layer.weight.data[:inputs])
    return layer


def _normalisation(channels: int) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(channels, momentum=REMEMBERED)
    del layer.weight
    layer.register_buffer("weight", torch.ones(channels))
    return layer


def tiny_convnet(classes: int, *, width: int = 48) -> nn.Module:
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
        _conv(3, width, 2, size=5),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        _conv(width, 2 * width, 2),
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
    "cifar-resnet18": partial(_residual, (64, 128, 256, 512), 2),
    "speedrun": speedrun,
    "wrn-22-8": partial(wide_resnet, 22, 8),
    "wrn-28-10": partial(wide_resnet, 28, 10),
}


def build_model(name: str, classes: int, seed: int) -> nn.Module:
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


def prepare_layers(model: nn.Module, images: Callable[[], Tensor]) -> None:
    """Show training images to the layers that prepare on some.

    Args:
        model: A fresh network; changed in place.
        images: Returns normalised images, shape (N, 3, H, W); called for each layer that has a
            method `prepare`, which takes them.
    """
    for layer in model.modules():
        if prepare := getattr(layer, "prepare", None):
            prepare(images())


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


def build_user_network(name: str, classes: int) -> nn.Module:
    """Call the function of this name with the number of classes.

    Raises:
        ConfigError: It cannot be called so, returns no network, or takes over two minutes.
    """
    with _users(
        name, f"make a network of {classes} classes", "correct it",
        f"when called with {classes} classes; correct it",
    ):  # fmt: skip
        network = function_of(name)(classes)
    if not isinstance(network, nn.Module):
        raise ConfigError(
            f"source.model {name!r} must return a torch.nn.Module, got {type(network).__name__}"
        )
    return network.train()


def try_outputs(model: nn.Module, name: str, classes: int, shape: tuple[int, ...]) -> None:
    """Refuse a network that does not give one score a class for images of a size.

    Args:
        model: The network; left as it is.
        name: What messages call it.
        classes: Number of classes.
        shape: Height and width of an image.

    Raises:
        ConfigError: It raises, gives something else, or nothing in two minutes.
    """
    training, size = model.training, f"{shape[1]}x{shape[0]} pixels"
    with _users(
        name, f"give scores of two images of {size}", "make it faster",
        f"on two images of {size}; make it accept this size",
    ), torch.no_grad():  # fmt: skip
        try:
            outputs = model.eval()(torch.zeros(2, 3, *shape))
        finally:
            model.train(training)
    shown = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shown != (2, classes):
        raise ConfigError(
            f"source.model {name!r} must give scores of shape {(2, classes)} for two images and "
            f"{classes} classes, got {shown}; correct its last layer"
        )


@contextmanager
def _users(name: str, must: str, faster: str, raised: str) -> Iterator[None]:
    """Run code of the user's in this block: what it raises, and that it never ends, is refused."""
    try:
        with _in_time():
            yield
    except ConfigError:
        raise
    except Endless as error:
        raise ConfigError(
            f"source.model {name!r} must {must} within {LIMIT_S} s, and did not; {faster}"
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(f"source.model {name!r} raised {error_line(error)} {raised}") from error


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
