from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def prepare_data(
    run_uri: str,
    examples: dsl.Output[dsl.Dataset],
    config: str = "",
    rules: str = "",
) -> None:
    """Read the source, check it against the configuration, write the examples.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        config: Configuration (YAML) to begin the run with; empty where the run has one.
        rules: Gate file (YAML) to judge it by; empty for what the run has, or the default rules.

    Returns:
        examples: Where the examples are.
    """
    from scotoma.steps.runner import execute

    execute(
        "prepare",
        run_uri,
        examples.path,
        begin=(config, rules),
    )
