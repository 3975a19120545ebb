from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def import_models(
    run_uri: str,
    shard: str,
    examples: dsl.Input[dsl.Dataset],
    models: dsl.Output[dsl.Model],
) -> None:
    """Check the external models of a shard, each on a few images, and copy them.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        shard: Members to take, as INDEX:FIRST-LAST.
        examples: Where the examples are.

    Returns:
        models: Where the copies are.
    """
    from scotoma.steps.runner import execute

    execute(
        "import_models",
        run_uri,
        models.path,
        after=[examples.path],
        shard=shard,
    )
