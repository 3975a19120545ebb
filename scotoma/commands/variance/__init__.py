"""The command `scotoma variance`."""
