from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def report_bias(
    run_uri: str,
    predictions: dsl.Input[dsl.Dataset],
    bias: dsl.Output[dsl.Artifact],
) -> None:
    """Measure which classes and which groups pay for the compression.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        predictions: Where the predictions are.

    Returns:
        bias: Where the tables of classes and groups are.
    """
    from scotoma.steps.runner import execute

    execute(
        "bias",
        run_uri,
        bias.path,
        after=[predictions.path],
    )
