"""The command `scotoma examples`."""
