"""Run one member on a batch of images: by ONNX Runtime, or by torch where there is no graph.

A convolution takes ONNX Runtime about two thirds of the time that it takes torch on a processor,
and an int8 member is best compared with a dense one that the same library ran. So trained members
run as graphs too, where the audit has exported one and torch has no GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.inference.preprocessing import OURS, PixelArray, Preprocessing, Scores
from scotoma.processes.machine import gpu_at_hand
from scotoma.readers.onnx_outputs import choose_output, class_scores, is_probability

if TYPE_CHECKING:
    from scotoma.config.limits import ReaderLimits
    from scotoma.quantization.architecture import Architecture


BATCH = 1024  # images at once, of arrays that are in memory as a whole
Engine: TypeAlias = "TorchEngine | OnnxEngine"  # one member, ready to run
PREFERRED = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")


@dataclass(frozen=True)
class Network:
    """Facts that all members of a population share.

    Attributes:
        model: Name of the network; weights without a graph need it.
        classes: Number of classes.
        preprocessing: What it wants its images to be.
        deterministic: Nothing but the inputs may decide a result.
        graph: The file of its `Architecture`; None where it was not exported.
        as_trained: Run weights by torch, batch normalisation unfolded, as they were trained.
        processor: Run on the processor, also where torch has a GPU.
        limits: Of external models: memory and time for a batch. None for members made here.
        output: The output of external models that holds the scores; empty to choose it by shape.
        best: How many classes are told of each image, those of the highest scores.
        thresholds: Where an image has several labels, each output is one: the sigmoid of the score
            from which it is present, by output, in (0, 1). Empty where outputs are classes.
    """

    model: str
    classes: int
    preprocessing: Preprocessing = OURS
    deterministic: bool = False
    graph: Path | None = None
    as_trained: bool = False
    processor: bool = False
    limits: ReaderLimits | None = None
    output: str = ""
    best: int = 1
    thresholds: tuple[float, ...] = ()


def open_engine(path: Path, network: Network, *, together: bool = False) -> Engine:
    """Open the engine for a member's file, `.onnx` or `.safetensors`.

    Args:
        path: The file.
        network: What it is run as.
        together: Give ONNX Runtime whole batches, even where images then influence each other.
    """
    if path.suffix == ".onnx":
        return OnnxEngine(path, network, together=together)
    if runs_as_graph(network):
        member = _architecture(network.graph).with_weights(read_weights(path))
        return OnnxEngine(member.SerializeToString(), network)
    return TorchEngine(path, network)


def runs_as_graph(network: Network) -> bool:
    """Whether ONNX Runtime runs weights, in the graph that the audit has exported."""
    if network.graph is None or network.as_trained:
        return False
    return network.processor or not gpu_at_hand()


def runs_on_gpu(path: Path, network: Network) -> bool:
    """Whether torch runs a member on a GPU: weights, where there is one and it is not ruled out."""
    return path.suffix != ".onnx" and not network.processor and gpu_at_hand()


@lru_cache(maxsize=1)
def _architecture(file: Path) -> Architecture:
    """Read the architecture, which all members of an audit share."""
    from scotoma.quantization.architecture import Architecture

    return Architecture.read(file)


class TorchEngine:
    """Weights of a network of ours or of torchvision, in float32."""

    def __init__(self, path: Path, network: Network) -> None:
        torch = needs("torch", "train", "prediction")
        from scotoma.quantization.graphs import fold
        from scotoma.training.models import build_model

        self.device = torch.device("cuda" if runs_on_gpu(path, network) else "cpu")
        if self.device.type == "cuda":
            # float32 must be float32: a product cut to 10 bits is another model.
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.deterministic = network.deterministic
        model = build_model(network.model, network.classes, 0).eval()
        weights = {name: torch.from_numpy(value) for name, value in read_weights(path).items()}
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(
                f"{path} must hold the weights of {network.model} with {network.classes} classes, "
                "got others; repeat the audit to make them again"
            ) from error
        self.as_trained = network.as_trained
        ready = model if network.as_trained else fold(model)
        self.model = ready.to(self.device).to(memory_format=torch.channels_last)
        self.prepare = network.preprocessing.in_torch(self.device)
        self._gpu_s = 0.0

    @property
    def runtime(self) -> str:
        """Name of what runs it."""
        batch_norm = "as trained" if self.as_trained else "folded"
        return f"torch, {self.device.type}, float32, channels last, batch norm {batch_norm}"

    def scores(self, pixels: PixelArray) -> Scores:
        """Scores of a batch, shape (B, C), from pixels of shape (B, 3, H, W)."""
        import torch

        if torch.get_num_threads() > 1:
            torch.set_num_threads(1)  # a second OpenMP thread stalls the first if its core is busy
        try:
            return self._scores(pixels)
        except torch.OutOfMemoryError:
            if len(pixels) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(pixels) // 2
        return np.concatenate([self.scores(pixels[:half]), self.scores(pixels[half:])])

    def _scores(self, pixels: PixelArray) -> Scores:
        import torch

        timed = self.device.type == "cuda"
        if timed:
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            began.record()
        images = torch.from_numpy(np.require(pixels, requirements="W"))  # torch warns of others
        with torch.inference_mode():
            scores = self.model(self.prepare(images)).float()
        if timed:
            ended.record()
        found: Scores = scores.cpu().numpy()
        if timed:
            self._gpu_s += began.elapsed_time(ended) / 1000
        return found

    @property
    def gpu_use(self) -> tuple[float, int]:
        """Seconds in which a GPU worked for it, and the most bytes that it took there."""
        import torch

        peak = torch.cuda.max_memory_reserved() if self.device.type == "cuda" else 0
        return self._gpu_s, peak


class OnnxEngine:
    """One ONNX file, with the first provider of TensorRT, CUDA and CPU that is there."""

    gpu_use = (0.0, 0)  # nothing that is measured

    def __init__(
        self,
        path: Path | bytes,
        network: Network,
        *,
        together: bool = False,
    ) -> None:
        self.path, self.session = path, session(path)
        first = self.session.get_inputs()[0]
        kind = first.type.removeprefix("tensor(").removesuffix(")")  # tensor(float), tensor(uint8)
        dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
        self.preprocessing = network.preprocessing.fitted(dtype, first.shape)
        self.network = network
        # What is quantized on the fly takes its range from the whole batch: an image's label
        # would depend on its neighbours, so each goes in alone, as it would in service.
        self.alone = first.shape[0] == 1
        if not (self.alone or together or isinstance(path, bytes)):  # bytes are float32
            kinds = {node.op_type for node in _graph(path).node}
            self.alone = "DynamicQuantizeLinear" in kinds

    @property
    def runtime(self) -> str:
        """Name of what runs it."""
        alone = ", image by image" if self.alone else ""
        return f"onnxruntime, {self.session.get_providers()[0]}{alone}"

    def scores(self, pixels: PixelArray) -> Scores:
        """Scores of a batch, shape (B, C), from pixels of shape (B, 3, H, W)."""
        name, probability = self._score_output
        return class_scores(
            self.run(pixels, name),
            self.network.classes,
            labels=bool(self.network.thresholds),
            probability=probability,
        )

    def run(self, pixels: PixelArray, output: str | None = None) -> NDArray[Any]:
        """Values of an output, the first where none is named, from pixels as `scores` takes."""
        images = self.preprocessing(pixels)
        return _run(self.session, images, 1 if self.alone else len(images), output)

    @cached_property
    def _score_output(self) -> tuple[str, bool]:
        """The output that holds the scores, and whether it is one probability for two classes."""
        name = choose_output(
            {  # ONNX Runtime says [] of an unknown rank
                one.name: [side if isinstance(side, int) else None for side in one.shape] or None
                for one in self.session.get_outputs()
            },
            self.network.classes,
            labels=bool(self.network.thresholds),
            asked=self.network.output,
            called="the model" if isinstance(self.path, bytes) else self.path.name,
        )
        if self.network.classes != 2 or isinstance(self.path, bytes):
            return name, False
        graph = _graph(self.path)
        producers = {one: (node.op_type, node.input) for node in graph.node for one in node.output}
        return name, is_probability(producers, name)


def providers() -> list[str]:
    """List the execution providers that are installed, the preferred one first."""
    onnxruntime = needs("onnxruntime", "train", "prediction")
    there = onnxruntime.get_available_providers()
    return [name for name in PREFERRED if name in there]


def session(path: Path | bytes) -> Any:
    """Open an ONNX Runtime session of one thread, with the first of `providers`.

    Its products of 8 bits cannot overflow: otherwise they saturate on processors without VNNI, and
    an audit would measure the processor instead of the quantization.

    Args:
        path: The model's file, or its bytes.
    """
    onnxruntime = needs("onnxruntime", "train", "prediction")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # what matters is raised
    options.add_session_config_entry("session.x64quantprecision", "1")
    model = path if isinstance(path, bytes) else str(path)
    wanted = providers()
    again = int(len(wanted) > 1)  # where one provider is left, it would only print and fail again
    return onnxruntime.InferenceSession(model, options, providers=wanted, enable_fallback=again)


def _graph(path: Path) -> Any:
    return needs("onnx", "train", "prediction").load(path, load_external_data=False).graph


def _run(opened: Any, images: NDArray[Any], batch: int, output: str | None = None) -> NDArray[Any]:
    name = opened.get_inputs()[0].name
    parts = [
        opened.run(output and [output], {name: images[at : at + batch]})[0]
        for at in range(0, len(images), batch)
    ]
    return np.concatenate(parts)


def scores_onnx(path: Path | bytes, images: Scores) -> Scores:
    """Scores of one ONNX model of one output, float32, shape (N, C), with one thread."""
    scores: Scores = _run(session(path), images, BATCH)
    return scores


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Read a .safetensors file: numbers and names, nothing that could run.

    Args:
        path: The file.

    Returns:
        Arrays by name.

    Raises:
        DataError: It is no such file, or not whole.
    """
    safetensors = needs("safetensors", "train", "prediction")
    try:
        weights: dict[str, NDArray[Any]] = needs(
            "safetensors.numpy", "train", "prediction"
        ).load_file(path)
    except (OSError, KeyError, ValueError, safetensors.SafetensorError) as error:
        from scotoma.processes.unreadable import reason  # Polars comes with it

        raise DataError(
            f"weights {path} cannot be read ({reason(error)}); repeat the audit to make them again"
        ) from error
    return weights
