"""From a failed int8 variant to one with some layers in float32, judged on its own half.

Nothing is imported here: what can be refused is refused before ONNX Runtime is needed.
"""
