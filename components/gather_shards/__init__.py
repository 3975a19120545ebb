from scotoma.components.gather_shards.component import gather_shards

__all__ = ["gather_shards"]
