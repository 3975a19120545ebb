"""The command `scotoma slices`."""
