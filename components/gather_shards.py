from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def gather_shards(
    run_uri: str,
    parts: dsl.Input[list[dsl.Artifact]],
    predictions: dsl.Output[dsl.Dataset],
) -> None:
    """Put the shards of every variant together, predictions and manifests.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        parts: Where the predictions of every shard are.

    Returns:
        predictions: Where the predictions of every variant are.
    """
    from scotoma.steps.runner import execute

    execute(
        "gather",
        run_uri,
        predictions.path,
        after=[part.path for part in parts],
    )
