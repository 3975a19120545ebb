from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def begin_scheduled(
    root: str,
    job: str,
    config: str,
    rules: str = "",
) -> str:
    """Begin a scheduled audit, if there is anything new.

    Args:
        root: Folder of the schedule, or its `s3://BUCKET/PREFIX`.
        job: Id of this run of the pipeline.
        config: Configuration (YAML).
        rules: Gate file (YAML); empty for the default rules.

    Returns:
        Output: The place of the audit; `nothing` if there is nothing to do.
    """
    from scotoma.steps.kubeflow.schedule import begin

    return begin(root, job, config, rules)
