"""Rewrite the golden files of the CPU generator after an intended change. Review the difference."""

from __future__ import annotations

import json

from tests.codegen.test_emit import GOLDEN, digests, tiles

if __name__ == "__main__":
    for name, text in tiles().items():
        (GOLDEN / name).write_text(text, "utf-8")
    (GOLDEN / "digests.json").write_text(json.dumps(digests(), indent=1, sort_keys=True) + "\n", "utf-8")
