from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def log_tracking(
    run_uri: str,
    report: dsl.Input[dsl.Artifact],
    tracked: dsl.Output[dsl.Artifact],
) -> None:
    """Log the audit to MLflow, one run per variant and one per member, and seal its folder.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        report: Where the page is.

    Returns:
        tracked: Where the links to the runs are.
    """
    from scotoma.stages import execute

    execute(
        "log",
        run_uri,
        tracked.path,
        after=[report.path],
    )
