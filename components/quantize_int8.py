from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def quantize_int8(
    run_uri: str,
    shard: str,
    examples: dsl.Input[dsl.Dataset],
    dense: dsl.Input[dsl.Model],
    quantized: dsl.Output[dsl.Model],
    pruned: dsl.Input[dsl.Model] = None,
) -> None:
    """Export the trained members of a shard to ONNX and quantize them.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        shard: Members to take, as INDEX:FIRST-LAST.
        examples: Where the examples are.
        dense: Where the dense members of the shard are.
        pruned: Where the pruned members are, if there are any; some may be quantized too.

    Returns:
        quantized: Where the quantized members are.
    """
    from scotoma.steps.runner import execute

    execute(
        "quantize",
        run_uri,
        quantized.path,
        after=[each.path for each in (examples, dense, pruned) if each],
        shard=shard,
    )
