"""Which variants and members can nothing be done to after training, and why?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scotoma.errors import ConfigError, DataError
from scotoma.extras import needs
from scotoma.run.finished import compressed_variant

if TYPE_CHECKING:
    from pathlib import Path

    from scotoma.config import Config, Variant
    from scotoma.datasets import AuditedExamples
    from scotoma.run import Run


def refuse_heads(config: Config) -> None:
    """Refuse members that decide by a head a group."""
    if config.mitigation is not None and config.mitigation.heads:
        raise ConfigError(
            f"members trained with {config.mitigation.technique} have a head a group and a rule of "
            "their own; fix an audit without mitigation.technique DD or DI"
        )


FEWEST = 20  # clusters in each half: fewer choose and judge by chance
STATIC = ("QuantizeLinear", "QLinear", "QGemm")  # beginnings of operators
DYNAMIC = ("DynamicQuantize", "MatMulInteger", "ConvInteger")


def repairable(run: Run, name: str | None) -> Variant:
    """Find the variant that is to be repaired.

    Args:
        run: A finished audit.
        name: The variant; None for the only one that can be repaired, or the only static one.

    Returns:
        The variant; its `mode` is static or dynamic, also where its models are external.

    Raises:
        ConfigError: No such variant, or not one of int8.
    """
    config = run.config
    if config.source.has_answers:
        raise ConfigError(
            "repair quantizes models again, and this audit has predictions alone; audit the ONNX "
            "models with source.kind: onnx"
        )
    fit = [one.name for one in config.resolved_variants[1:] if _fits(config, one)]
    if name is None:
        static = [one for one in fit if config.variant(one).mode == "static"]
        (name,) = fit if len(fit) == 1 else static if len(static) == 1 else [""]
        if not name:
            raise ConfigError(
                "--variant must name an int8 variant, got none; this audit has "
                f"{', '.join(fit) or 'none: add int8: [static] to its variants and audit again'}"
            )
    variant = compressed_variant(run, name)
    if variant.kind == "prune":
        raise ConfigError(
            f"repair leaves layers of int8 in float32, and {name} is pruned; take scotoma fix RUN "
            f"--by dfr --variant {name}"
        )
    if name not in fit:
        raise ConfigError(
            f"--variant must be int8 made of models in float32, got {name}"
            f"{_why_not(config, variant)}; "
            + (f"take {', '.join(fit)}" if fit else "add int8: [static] to the variants")
        )
    if variant.kind != "onnx":
        return variant
    if not (mode := external_mode(run, variant)):
        raise ConfigError(
            f"--variant must be a variant of ONNX int8 models, got {name}, whose graphs have no "
            "quantized node; name the variant of the int8 models, or for pruned ones take scotoma "
            f"fix RUN --by dfr --variant {name}"
        )
    return variant.model_copy(update={"mode": mode})


def _fits(config: Config, variant: Variant) -> bool:
    if config.source.has_models:
        return variant.kind == "onnx" and bool(variant.derived_from)
    return variant.kind == "int8"


def _why_not(config: Config, variant: Variant) -> str:
    if config.source.has_models:
        return ", whose models are not paired with dense ones (paired: true)"
    return f", which is {variant.kind}"


def external_mode(run: Run, variant: Variant) -> str:
    """Whether external models are of `static` or `dynamic-per-layer` int8; empty for neither."""
    path = run.member(variant.name, 0)
    run.fetch(path)
    return int8_mode(path) if path.is_file() else "static"  # which is refused where it is read


def int8_mode(path: Path) -> str:
    """Whether a model is of `static` or `dynamic-per-layer` int8; empty for neither."""
    onnx = needs("onnx", "train", "quantization")
    graph = onnx.load(path, load_external_data=False).graph
    operators = [node.op_type for node in graph.node]
    if any(one.startswith(STATIC) for one in operators):
        return "static"
    return "dynamic-per-layer" if any(one.startswith(DYNAMIC) for one in operators) else ""


def refuse_run(run: Run, examples: AuditedExamples) -> None:
    """Refuse an audit without labels or images, or whose technique decides by a rule of its own.

    Args:
        run: The audit.
        examples: Its test examples, without images.
    """
    refuse_heads(run.config)
    if not examples.labelled:
        raise DataError(
            "layers are chosen by error rates, and this audit has no labels; add label.column"
        )
    import polars as pl

    if "image" not in pl.read_parquet_schema(run.examples):
        raise DataError(
            f"layers are chosen on images, and {run.place} keeps none; repeat the audit, which "
            "stores them again"
        )


def refuse_few(clusters: tuple[int, int]) -> None:
    """Refuse halves of which neither choice nor verdict would mean anything."""
    if min(clusters) < FEWEST:
        raise DataError(
            f"a repair is chosen on one half of the test examples and judged on the other, and "
            f"each must have at least {FEWEST} clusters, got {min(clusters)}; add test examples"
        )
