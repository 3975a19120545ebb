from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def score_divergence(
    run_uri: str,
    predictions: dsl.Input[dsl.Dataset],
    divergence: dsl.Output[dsl.Dataset],
) -> None:
    """Score how far every example moves between dense and compressed members.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        predictions: Where the predictions are.

    Returns:
        divergence: Where the scores and their summary are.
    """
    from scotoma.steps.runner import execute

    execute(
        "divergence",
        run_uri,
        divergence.path,
        after=[predictions.path],
    )
