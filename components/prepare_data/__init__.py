from scotoma.components.prepare_data.component import prepare_data

__all__ = ["prepare_data"]
