"""What lies behind each command of the command line, one module a command."""
