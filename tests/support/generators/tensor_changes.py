"""Tensor files that are good, and their slight changes."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import numpy as np

from tests.support.generators.tensor_bytes import Q, described, entry, header, npy, npz, put, safetensors


def good(folder: Path) -> dict[str, str]:
    """Files of the array ``Q`` that must be read: other byte orders, Fortran order, compression, unneeded members."""
    bad = npz({"k.npy": b"not an array", "q.npy": npy()}, zipfile.ZIP_DEFLATED)
    offsets = {"k": entry(0, 512, dtype="U32"), "q": entry(512, 1024), "__metadata__": {"a": "b"}}
    return {
        "Fortran order": put(folder, "fortran.npy", npy(np.asfortranarray(Q))),
        "big-endian": put(folder, "big.npy", npy(Q.astype(">f4"))),
        "version 2": put(folder, "two.npy", header(described(str(Q.shape)), version=2, data=Q.tobytes())),
        "version 3": put(folder, "three.npy", header(described(str(Q.shape)), version=3, data=Q.tobytes())),
        "compressed": put(folder, "q.npz", npz({"q.npy": npy()}, zipfile.ZIP_DEFLATED)),
        "lzma": put(folder, "lzma.npz", npz({"q.npy": npy()}, zipfile.ZIP_LZMA)),
        "beside a damaged member": put(folder, "beside.npz", bad),
        "key": put(folder, "keys.npz", npz({"a.npy": npy(), "b.npy": npy()})) + ":a",
        "colon": put(folder, "a:b.npy", npy()),
        "safetensors": put(folder, "q.safetensors", safetensors(offsets, Q.tobytes() * 2)),
    }


def mutations(count: int, seed: int) -> list[tuple[str, bytes]]:
    """(name, content) of good files with a few bytes changed, removed, doubled or exchanged."""
    draw = random.Random(seed)
    whole = {
        "q.npy": npy(),
        "q.npz": npz({"q.npy": npy()}, zipfile.ZIP_DEFLATED),
        "stored.npz": npz({"q.npy": npy()}),
        "lzma.npz": npz({"q.npy": npy()}, zipfile.ZIP_LZMA),
        "q.safetensors": safetensors({"q": entry()}),
    }
    out = []
    for _ in range(count):
        name = draw.choice(list(whole))
        data = bytearray(whole[name])
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.choice((draw.randrange(len(data)), draw.randrange(min(len(data), 160)), len(data) - 1))
            end = min(len(data), at + draw.choice((1, 1, 2, 4, 30)))
            new = draw.choice((b"", bytes(end - at), b"\xff" * (end - at), draw.randbytes(end - at), bytes(data[:at])))
            data[at:end] = new
            data = data or bytearray(b"\0")
        out.append((name, bytes(data)))
    return out
