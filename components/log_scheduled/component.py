from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def log_scheduled(
    root: str,
    job: str,
    ended: dsl.PipelineTaskFinalStatus,
    tracked: dsl.Output[dsl.Artifact],
) -> None:
    """Log a scheduled audit to MLflow; of one that failed, why; nothing where none began.

    Args:
        root: Folder of the schedule, or its `s3://BUCKET/PREFIX`.
        job: Id of this run of the pipeline.
        ended: How the steps before this one ended.

    Returns:
        tracked: Where the links to the runs are.
    """
    from scotoma.stages.scheduled import end

    end(root, job, tracked.path, ended.state)
