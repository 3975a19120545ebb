"""`python -m scotoma` is the `scotoma` command."""

from scotoma.cli import main

if __name__ == "__main__":
    main()
