"""The command `scotoma tables`."""
