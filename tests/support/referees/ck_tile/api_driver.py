"""Writes one of upstream's ``*_api.cpp`` files to standard output, but no kernels. The tests run it.

Upstream's generator must be on the import path. Usage: api_driver.py API ARCH RECEIPT (an API of ``generate.py
-d``).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MODULES = {
    "fwd": "fmha_fwd",
    "fwd_splitkv": "fmha_fwd_splitkv",
    "fwd_appendkv": "fmha_fwd_appendkv",
    "pagedkv_prefill": "fmha_pagedkv_prefill",
    "batch_prefill": "fmha_batch_prefill",
    "bwd": "fmha_bwd",
}


def main(api: str, arch: str, receipt: str) -> None:
    """Upstream's own ``write_blobs`` without the writing of kernels."""
    ops = importlib.import_module(f"codegen.ops.{MODULES[api]}")
    with TemporaryDirectory() as folder:
        written: dict[str, str] = {}

        def keep(path: Path, content: str) -> None:
            if path.name.endswith("_api.cpp"):
                written[path.name] = content

        ops.update_file = keep
        if hasattr(ops, "check_duplicates_and_paddings"):  # quadratic, and it changes nothing that is written
            ops.check_duplicates_and_paddings = lambda traits, trait: None
        ops.write_blobs([arch], Path(folder), "", int(receipt), [-1], "simplified")
    (text,) = written.values()
    sys.stdout.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
