"""Runs MMA-Sim, which PYTHONPATH names, on tiles: GENERATION QUALIFIER IN.npz OUT.npz.

A qualifier of four parts is one of tcgen05.mma, one of six of the same with block scales; their tiles have two scales more.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from mmasim.simulator.nv_ptx import mma, tcgen05mma, tcgen05mma_block_scale, wgmma

BITS = {torch.float32: torch.int32, torch.float16: torch.int16}


def main(generation: str, qualifier: str, asked: str, answered: str) -> None:
    torch.set_num_threads(1)
    wide = wgmma if generation == "Hopper" else tcgen05mma
    product = {3: wide, 5: tcgen05mma_block_scale}.get(qualifier.count("."), mma)(generation, qualifier)
    dtypes = [product.a_type, product.b_type, product.c_type]
    if isinstance(product, tcgen05mma_block_scale):
        dtypes += 2 * [product.s_type]
    answers = {}
    with np.load(asked) as tiles:
        for n in range(len(tiles.files) // len(dtypes)):
            parts = []
            for name, dtype in zip("abcst", dtypes, strict=False):
                bits = tiles[f"{n}{name}"]
                signed = bits if bits.dtype.itemsize == 1 else bits.view(f"i{bits.dtype.itemsize}")
                parts.append(torch.from_numpy(np.ascontiguousarray(signed)).view(dtype))
            d = product(*parts)
            answers[str(n)] = d.view(BITS[d.dtype]).numpy().view(f"u{d.dtype.itemsize}")
    np.savez(answered, **answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
