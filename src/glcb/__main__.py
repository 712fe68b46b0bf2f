"""``python -m glcb`` is the command line."""

from glcb.cli import main

if __name__ == "__main__":
    main()
