"""A program: run upstream's generator for a list of kernels. Started with the generator's folder on PYTHONPATH.

Usage: ``python listed_generate.py TARGET APIS RECEIPT LIST OUT``. LIST holds one kernel name per line. Upstream's own
``--filter`` takes one glob for all kernels of an API; here a kernel passes if its name is in the list, so the API files
name exactly these kernels.
"""

from __future__ import annotations

import fnmatch
import importlib
import sys
from pathlib import Path

_EVERY = "listed@listed@listed"
"""A filter with a part for each kind of kernel of an API (up to three). Only its form matters, not its content."""


def main(target: str, apis: str, receipt: str, names: str, out: str) -> None:
    """Write the kernels' files and the API files below ``out``."""
    wanted = frozenset(Path(names).read_text("utf-8").split())

    def listed(name: str, pattern: str) -> bool:
        return name in wanted

    fnmatch.fnmatch = listed  # type: ignore[assignment]
    upstream = importlib.import_module("generate")
    every = apis.split(",")
    upstream.write_blobs([target], out, every, [_EVERY] * len(every), [-1], int(receipt), "simplified")


if __name__ == "__main__":
    main(*sys.argv[1:])
