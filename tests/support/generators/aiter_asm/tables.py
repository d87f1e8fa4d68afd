"""Upstream's tables of assembly kernels as rows of ``arch_specs/_aiter_asm.json``.

Usage: ``python -m tests.support.generators.aiter_asm.tables HSA`` prints the member ``forward`` for a folder ``aiter_meta/hsa``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARCHS = ("gfx942", "gfx950")
_ROW = re.compile(r"^template<> struct FmhaFwdV3(\w+)<fmha_fwd_kernel_selector<(.*?)>> *\{(.*)\};", re.MULTILINE)
_ROUNDINGS = ("rtne", "rtna", "rtz")
_THREADS = re.compile(r"int bdx = (.*);")


def forward_rows(hsa: Path) -> list[dict[str, Any]]:
    """The forward kernels, those with the default rounding first, in upstream's order."""
    rows = [row for arch in ARCHS for row in _of_arch(arch, (hsa / arch / "fmha_v3_fwd" / "codegen.py").read_text())]
    return sorted(rows, key=lambda row: (row["arch"], row["cvt"] not in ("rtna", "own")))


def _of_arch(arch: str, text: str) -> Iterator[dict[str, Any]]:
    """The kernels of one file of host code. Those with and without LSE are the same, and only arguments differ."""
    found: dict[str, dict[str, str]] = {}
    for part, selector, body in _ROW.findall(text):
        found.setdefault(" ".join(selector.split()), {})[part] = body
    threads = {_threads(expression) for expression in _THREADS.findall(text)}
    assert len(threads) == 1
    for selector, parts in found.items():
        kind, hdim, mask, _, _, lse, _, *rest = (word.strip() for word in selector.split(","))
        if lse == "1":
            continue
        file, name = (re.search(r'"(.*)"', parts[part])[1] for part in ("Buf", "Name"))  # type: ignore[index]
        rows, keys = (int(re.search(rf"{word} = (\d+)", parts["Ts"])[1]) for word in ("ts_qo", "ts_kv"))  # type: ignore[index]
        by_hdim = dict(next(iter(threads)))
        yield {
            "arch": arch,
            "file": file,
            "symbol": f"_ZN5aiter{len(name)}{name}E",
            "dtype": kind.removeprefix("FmhaFwd").lower(),
            "hdim": int(hdim),
            "causal": mask == "1",
            "group": rest[1:] == ["true"],
            "cvt": _ROUNDINGS[int(rest[0])] if arch == "gfx942" else "own",
            "tile": [rows, keys],
            "threads": by_hdim.get(int(hdim), by_hdim[0]),
        }


def _threads(expression: str) -> tuple[tuple[int, int], ...]:
    """(head dim, work-items of a group); head dim 0 is for every other one."""
    chosen = re.fullmatch(r"\(fmha_v3_traits\.d == (\d+)\) \? (\d+) : (\d+)", expression)
    return ((int(chosen[1]), int(chosen[2])), (0, int(chosen[3]))) if chosen else ((0, int(expression)),)


if __name__ == "__main__":
    print(json.dumps(forward_rows(Path(sys.argv[1])), indent=1))
