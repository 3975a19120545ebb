"""The command `scotoma init`."""
