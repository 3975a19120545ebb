"""The command `scotoma mitigate`."""
