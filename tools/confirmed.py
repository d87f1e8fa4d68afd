"""What a record of ``gpu_check.py`` confirms: the rows that ``arch_specs/_preference.json`` may hold because of it.

    python -m tools.confirmed results/data/nvidia.json.xz

A backend's kernels for an architecture are confirmed by a record if a device ran them, every judged row passed (parts
``cases`` and ``random``), and none is NOT_RUN. The check must be whole: not with ``--parts`` or ``--count``. A row names its
backend; those of AMD's records are of its only one. Prints the rows as JSON. Exit code 1 if the record confirms nothing.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

UNNAMED = "ck_tile"
"""The backend whose rows name none."""
JUDGED = ("cases", "random")
"""The parts that compare with the reference. The others take times or run other tools."""


def confirmations(document: Mapping[str, Any], record: str) -> list[dict[str, Any]]:
    """The confirmations of a record, one for each backend with nothing but passed rows.

    Args:
        record: where the record is kept, from the root of the repository.
    """
    device = document["device"]
    if device is None or not document.get("whole", document["vendor"] == "amd"):  # AMD's check has no parts
        return []
    arch = document.get("notes", {}).get("arch") or device["archs"][0]
    rows: Sequence[Mapping[str, Any]] = document.get("rows") or document["cases"]
    verdicts: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.get("part", JUDGED[0]) in JUDGED:
            name = row.get("backend") or UNNAMED
            verdicts.setdefault((name, row.get("arch") or arch), []).append(row["verdict"])
    return [
        {"arch": of, "backend": name, "device": device["name"], "passed": len(found), "record": record}
        for (name, of), found in verdicts.items()
        if set(found) == {"PASSED"}
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="a JSON record of gpu_check.py")
    path = parser.parse_args().record
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as record:
        found = confirmations(json.load(record), path.as_posix())
    print(json.dumps(found, indent=1))
    return 0 if found else 1


if __name__ == "__main__":
    raise SystemExit(main())
