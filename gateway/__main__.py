"""`python -m gateway`: the same as the console script."""

from gateway.cli import main

if __name__ == "__main__":
    main()
