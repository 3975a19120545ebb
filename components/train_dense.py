from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train_dense(
    run_uri: str,
    shard: str,
    examples: dsl.Input[dsl.Dataset],
    dense: dsl.Output[dsl.Model],
) -> None:
    """Train the dense members of a shard.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        shard: Members to take, as INDEX:FIRST-LAST.
        examples: Where the examples are.

    Returns:
        dense: Where they are.
    """
    from scotoma.steps.runner import execute

    execute(
        "train",
        run_uri,
        dense.path,
        after=[examples.path],
        shard=shard,
    )
