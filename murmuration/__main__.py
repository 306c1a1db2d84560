"""`python -m murmuration`, the same as the command `murmuration`."""

from murmuration.command import main

if __name__ == "__main__":
    main()
