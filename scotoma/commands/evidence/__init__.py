"""The command `scotoma evidence`."""
