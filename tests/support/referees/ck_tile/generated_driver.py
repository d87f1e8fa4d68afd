"""Writes the texts of the wanted kernels as one JSON object. The tests run it.

Upstream's generator must be on the import path. Usage: generated_driver.py API ARCH RECEIPT (an API of ``generate.py
-d``), with the wanted file stems on standard input.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

MODULES = {"pagedkv_prefill": "fmha_pagedkv_prefill", "batch_prefill": "fmha_batch_prefill"}


def main(api: str, arch: str, receipt: str) -> None:
    """Upstream's own ``write_blobs`` without the file system."""
    ops = importlib.import_module(f"codegen.ops.{MODULES.get(api, f'fmha_{api}')}")
    wanted = set(sys.stdin.read().split())
    found: dict[str, str] = {}

    def keep(path: Path, content: str) -> None:
        if path.stem in wanted:
            found[path.stem] = content

    ops.update_file = keep
    if hasattr(ops, "check_duplicates_and_paddings"):  # quadratic, and not needed here
        ops.check_duplicates_and_paddings = lambda traits, trait: None
    ops.write_blobs([arch], Path(), "", int(receipt), [-1], "simplified")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
