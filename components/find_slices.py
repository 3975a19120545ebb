from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def find_slices(
    run_uri: str,
    predictions: dsl.Input[dsl.Dataset],
    slices: dsl.Output[dsl.Artifact],
) -> None:
    """Find the slices nobody named on which a compressed population fell.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        predictions: Where the predictions are.

    Returns:
        slices: Where the slices are, and the statistics of the images.
    """
    from scotoma.steps.runner import execute

    execute(
        "slices",
        run_uri,
        slices.path,
        after=[predictions.path],
    )
