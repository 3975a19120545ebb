from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def record_failure(
    run_uri: str,
    job: str,
    shards: int,
    ended: dsl.PipelineTaskFinalStatus,
    config: str = "",
    scheduled: bool = False,
) -> None:
    """Record that an audit failed or was cancelled, and why; nothing if it is whole.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`; that of the schedule where it is
            scheduled.
        job: Id of this run of the pipeline.
        shards: Number of tasks that share the members.
        ended: How the steps before this one ended, as Kubeflow says.
        config: Configuration (YAML), for an audit that could not begin.
        scheduled: Whether the audit's folder lies below `run_uri` and is named by `job`.
    """
    from scotoma.steps.kubeflow.failure import record_failure

    record_failure(run_uri, job, ended.state, shards, config, scheduled=scheduled)
