"""``python -m kaspr_delta`` is the command ``kaspr-delta``."""

from kaspr_delta.cli import main

if __name__ == "__main__":
    main()
