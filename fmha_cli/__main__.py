"""``python -m fmha_cli``, and the command ``fmha``."""

import gc
import sys
from typing import NoReturn

YOUNG_OBJECTS = 50_000
"""New objects between two passes of the garbage collector. Imports make many objects, which all live on; with Python's own 700, a
cached run spends 6 % of its time looking through them."""


def main() -> NoReturn:
    """``fmha`` as the shell calls it."""
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        try:
            from fmha_cli.cli.app import main as start
        except KeyboardInterrupt:
            sys.exit(130)  # nothing has begun, so there is nothing to say
        start()
    finally:
        gc.freeze()  # the interpreter's end looks through all objects again, which takes a tenth of a cached run


if __name__ == "__main__":
    main()
