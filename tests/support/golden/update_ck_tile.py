"""Rewrite the golden files of the CK-Tile generator after an intended change. Review the difference."""

from __future__ import annotations

import json

from tests.support.golden.ck_tile import DIGESTS, GOLDEN, digests, golden_kernels, own_text

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for stale in GOLDEN.glob("*.hip"):
        stale.unlink()
    for name, kernel in golden_kernels().items():
        (GOLDEN / name).write_text(own_text(kernel), "utf-8")
    (GOLDEN / DIGESTS).write_text(json.dumps(digests(), indent=1, sort_keys=True) + "\n", "utf-8")
