"""What can be done to the members of a finished audit, and which layers did the harm?

Nothing is imported here: what can be refused is refused before ONNX Runtime is needed.
"""
