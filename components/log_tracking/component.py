from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def log_tracking(
    run_uri: str,
    ended: dsl.PipelineTaskFinalStatus,
    tracked: dsl.Output[dsl.Artifact],
) -> None:
    """Log the audit to MLflow, one run per variant and one per member; of one that failed, why.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        ended: How the steps before this one ended.

    Returns:
        tracked: Where the links to the runs are.
    """
    from scotoma.stages import execute

    execute(
        "log",
        run_uri,
        tracked.path,
        ended=ended.state,
    )
