"""``python -m fmha_cli.toolchain.cuda``: see ``child``."""

from __future__ import annotations

import sys

from fmha_cli.toolchain.cuda.child import main


def say(line: str) -> None:
    """Write a line to the log at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], say))
