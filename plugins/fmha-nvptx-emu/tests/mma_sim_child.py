"""Runs MMA-Sim, which PYTHONPATH names, on tiles: GENERATION QUALIFIER IN.npz OUT.npz."""

from __future__ import annotations

import sys

import numpy as np
import torch
from mmasim.simulator.nv_ptx import mma, tcgen05mma

BITS = {torch.float32: torch.int32, torch.float16: torch.int16}


def main(generation: str, qualifier: str, asked: str, answered: str) -> None:
    torch.set_num_threads(1)
    product = (tcgen05mma if qualifier.count(".") == 3 else mma)(generation, qualifier)
    answers = {}
    with np.load(asked) as tiles:
        for n in range(len(tiles.files) // 3):
            parts = []
            for name, dtype in zip("abc", (product.a_type, product.b_type, product.c_type), strict=True):
                bits = tiles[f"{n}{name}"]
                signed = bits if bits.dtype.itemsize == 1 else bits.view(f"i{bits.dtype.itemsize}")
                parts.append(torch.from_numpy(np.ascontiguousarray(signed)).view(dtype))
            d = product(*parts)
            answers[str(n)] = d.view(BITS[d.dtype]).numpy().view(f"u{d.dtype.itemsize}")
    np.savez(answered, **answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
