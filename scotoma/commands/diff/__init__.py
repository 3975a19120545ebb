"""The command `scotoma diff`."""
