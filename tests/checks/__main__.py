"""``python -m tests.checks``: run a check, or list them."""

from __future__ import annotations

import sys

from tests.checks.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
