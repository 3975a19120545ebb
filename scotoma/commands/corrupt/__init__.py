"""The command `scotoma corrupt`."""
