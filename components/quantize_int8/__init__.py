from scotoma.components.quantize_int8.component import quantize_int8

__all__ = ["quantize_int8"]
