from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def log_scheduled(
    root: str,
    job: str,
    config: str,
    ended: dsl.PipelineTaskFinalStatus,
    tracked: dsl.Output[dsl.Artifact],
) -> None:
    """Log a scheduled audit to MLflow, or why it failed; nothing if none began.

    Args:
        root: Folder of the schedule, or its `s3://BUCKET/PREFIX`.
        job: Id of this run of the pipeline.
        config: Configuration (YAML).
        ended: State of the steps before this one.

    Returns:
        tracked: Links to the runs.
    """
    from scotoma.stages.schedule import end

    end(root, job, config, tracked.path, ended.state)
