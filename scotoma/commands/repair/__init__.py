"""The command `scotoma repair`."""
