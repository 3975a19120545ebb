from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def begin_scheduled(
    root: str,
    job: str,
    since: str,
    config: str,
    rules: str = "",
) -> str:
    """Begin a scheduled audit, if one is due and there is anything new.

    Args:
        root: Folder of the schedule, or its `s3://BUCKET/PREFIX`.
        job: Id of this run of the pipeline.
        since: When the schedule was made, ISO 8601.
        config: Configuration (YAML) with a section `retraining`.
        rules: Gate file (YAML); empty for the default rules.

    Returns:
        Where the audit runs; `nothing` if there is nothing to do.
    """
    from scotoma.stages.scheduled import begin

    return begin(root, job, since, config, rules)
