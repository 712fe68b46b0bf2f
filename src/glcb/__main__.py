"""Entry point of ``python -m glcb``."""

from glcb.cli import main

if __name__ == "__main__":
    main()
