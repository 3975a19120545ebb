from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def log_tracking(
    run_uri: str,
    report: dsl.Input[dsl.Artifact],
    tracked: dsl.Output[dsl.Artifact],
    job: str = "",
) -> None:
    """Log the audit to MLflow, a run with one below it for each variant, and seal its folder.

    It waits for a server that does not answer, says so, and fails where nothing was logged.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        report: Where the page is.
        job: Id of this run of the pipeline.

    Returns:
        tracked: Where the links to the runs are.
    """
    from scotoma.steps.runner import execute

    execute(
        "log",
        run_uri,
        tracked.path,
        after=[report.path],
        options={"job": job, "required": True},
    )
