from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def predict_batch(
    run_uri: str,
    shard: str,
    examples: dsl.Input[dsl.Dataset],
    predictions: dsl.Output[dsl.Dataset],
    dense: dsl.Input[dsl.Model] = None,
    pruned: dsl.Input[dsl.Model] = None,
    quantized: dsl.Input[dsl.Model] = None,
    models: dsl.Input[dsl.Model] = None,
) -> None:
    """Run every member of a shard on the test examples.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        shard: Members to take, as INDEX:FIRST-LAST.
        examples: Where the examples are.
        dense: Where the dense members of the shard are, if they are trained.
        pruned: Where the pruned members are, if there are any.
        quantized: Where the int8 members are, if there are any.
        models: Where the external models of the shard are, if there are any.

    Returns:
        predictions: Where the predictions of the shard are.
    """
    from scotoma.steps.runner import execute

    execute(
        "predict",
        run_uri,
        predictions.path,
        after=[each.path for each in (examples, dense, pruned, quantized, models) if each],
        shard=shard,
    )
