from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def measure_robustness(
    run_uri: str,
    examples: dsl.Input[dsl.Dataset],
    predictions: dsl.Input[dsl.Dataset],
    robustness: dsl.Output[dsl.Artifact],
) -> None:
    """Run every member on corrupted test pictures, and measure what that costs whom.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        examples: Where the examples are.
        predictions: Where the predictions on clean pictures are.

    Returns:
        robustness: Where the losses of variants and groups are.
    """
    from scotoma.steps.runner import execute

    execute(
        "robustness",
        run_uri,
        robustness.path,
        after=[examples.path, predictions.path],
    )
