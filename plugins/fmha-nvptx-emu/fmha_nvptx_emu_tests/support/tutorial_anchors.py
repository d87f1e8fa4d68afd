"""The kernels of Triton's tutorials: softmax, matrix products, layer norm. ``attention_anchors.py`` has their attention.

They are read from a checkout of triton-lang/triton that ``FMHA_TRITON_HOME`` names, at the pinned commit: each file by its digest.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from fmha_nvptx_emu_tests.support.triton_anchors import WITH_MAPS, Array, Maker, Random, TritonLaunch

VARIABLE = "FMHA_TRITON_HOME"
COMMIT = "5c846f015d9cfbe94480fea890545888ea33b827"
DIGESTS = {
    "02-fused-softmax.py": "8a65b696d5b02a3900380395ecd883671afeb66328db108f55622ed8853a05da",
    "03-matrix-multiplication.py": "f88a9506694c58d483ad3cdb4aa672c23df0300803bcfaca13b9396184825008",
    "05-layer-norm.py": "31cda7bf7bb9b637ea662b789188d37ff5981c3973626d4e2a293db633f3bb87",
    "06-fused-attention.py": "5b16be48b7b781ef018931c789b191f3390886ac479bb5df8a3418e5612ab317",
    "09-persistent-matmul.py": "26b19072955dd4472f9821d68c97943f625137f89850be1c5d9451cae3011aa3",
}
SINGLE = 2.0**-20
"""Budget of results in binary32."""


def tutorial(name: str) -> Path:
    """A tutorial's file.

    Raises:
        ValueError: the variable is not set, the checkout lacks the file, or it is of another revision.
    """
    home = os.environ.get(VARIABLE)
    if not home:
        raise ValueError(f"{VARIABLE} does not name a checkout of triton-lang/triton at {COMMIT}")
    path = Path(home, "python", "tutorials", name)
    if not path.is_file():
        raise ValueError(f"{path} does not exist: {VARIABLE} is no checkout of triton-lang/triton")
    if hashlib.sha256(path.read_bytes()).hexdigest() != DIGESTS[name]:
        raise ValueError(f"{path} is not the file of commit {COMMIT}")
    return path


def softmax(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """Rows of binary32; fewer blocks than rows."""
    rows, columns, block, blocks = (7, 200, 256, 3) if ragged else (8, 128, 128, 4)
    x = random.normal(0, 3, (rows, columns)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    arguments = {
        "output_ptr": np.zeros_like(x), "input_ptr": x, "input_row_stride": columns, "output_row_stride": columns, "n_rows": rows, "n_cols": columns,
    }  # fmt: skip
    constants = {"BLOCK_SIZE": block, "num_stages": 2}
    wanted = {"output_ptr": e / e.sum(1, keepdims=True)}
    return TritonLaunch(tutorial("02-fused-softmax.py"), "softmax_kernel", f"{rows}x{columns}", arguments, constants, wanted, (blocks, 1, 1), ragged, budget=SINGLE)  # fmt: skip


def _product(random: Random, ragged: bool, other: bool) -> tuple[dict[str, Any], Array, tuple[int, int, int]]:
    """A, B, C, their sizes, and the product. ``other``: rows of B are columns of the product."""
    m, n, k = (100, 72, 88) if ragged else (128, 128, 64)
    a = random.normal(0, 1, (m, k)).astype(np.float16)
    b = random.normal(0, 1, (n, k) if other else (k, n)).astype(np.float16)
    wide = b.astype(np.float64)
    arrays = {"a": a, "b": b, "c": np.zeros((m, n), np.float16)}
    return arrays, a.astype(np.float64) @ (wide.T if other else wide), (m, n, k)


def _tiles(m: int, n: int, side: int) -> int:
    return -(-m // side) * -(-n // side)


def _by_pointers(random: Random, ragged: bool, file: str, kernel: str, constants: dict[str, Any], blocks: int = 0, relu: bool = False) -> TritonLaunch:  # fmt: skip
    arrays, wanted, (m, n, k) = _product(random, ragged, other=False)
    arguments = {
        **{f"{name}_ptr": array for name, array in arrays.items()}, "M": m, "N": n, "K": k,
        "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1, "stride_cm": n, "stride_cn": 1,
    }  # fmt: skip
    sides = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}
    if relu:
        wanted = np.where(wanted >= 0, wanted, 0.01 * wanted)
    grid = (blocks or _tiles(m, n, 64), 1, 1)
    return TritonLaunch(
        tutorial(file), kernel, f"{m}x{n}x{k}", arguments, sides | constants, {"c_ptr": wanted}, grid, ragged, stages=3
    )


def matmul(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """A product and what follows it in the ragged case: a leaky ReLU."""
    constants = {"ACTIVATION": "leaky_relu" if ragged else ""}
    return _by_pointers(random, ragged, "03-matrix-multiplication.py", "matmul_kernel", constants, relu=ragged)


def persistent(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """Three blocks share four tiles."""
    return _by_pointers(random, ragged, "09-persistent-matmul.py", "matmul_kernel_persistent", {"NUM_SMS": 3}, blocks=3)


def _by_maps(random: Random, ragged: bool, kernel: str, constants: dict[str, Any], blocks: int = 0, half: bool = False) -> TritonLaunch:  # fmt: skip
    arrays, wanted, (m, n, k) = _product(random, ragged, other=True)
    arguments = {**{f"{name}_desc": array for name, array in arrays.items()}, "M": m, "N": n, "K": k}
    sides = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8, "FP8_OUTPUT": False}
    shapes = {"a_desc": (64, 32), "b_desc": (64, 32), "c_desc": (64, 32 if half else 64)}
    grid = (blocks or _tiles(m, n, 64), 1, 1)
    return TritonLaunch(
        tutorial("09-persistent-matmul.py"), kernel, f"{m}x{n}x{k}", arguments, sides | constants, {"c_desc": wanted}, grid,
        ragged, stages=3, blocks=shapes, archs=WITH_MAPS,
    )  # fmt: skip


def tma(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """A product whose tiles come and go by TMA."""
    return _by_maps(random, ragged, "matmul_kernel_tma", {"WARP_SPECIALIZE": False})


def specialised(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """The same, with ``warp_specialize`` on its loop."""
    return _by_maps(random, ragged, "matmul_kernel_tma", {"WARP_SPECIALIZE": True})


def tma_persistent(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """Three blocks, TMA, and results in two halves."""
    constants = {"WARP_SPECIALIZE": False, "EPILOGUE_SUBTILE": True, "NUM_SMS": 3}
    return _by_maps(random, ragged, "matmul_kernel_tma_persistent", constants, blocks=3, half=True)


def _normalised(random: Random, rows: int, columns: int) -> tuple[Array, ...]:
    """x, w, b in binary16; mean, 1/std and the normalised x of each row."""
    x = random.normal(1, 2, (rows, columns)).astype(np.float16)
    w, b = (random.normal(0, 1, columns).astype(np.float16) for _ in range(2))
    wide = x.astype(np.float64)
    mean, rstd = wide.mean(1), 1 / np.sqrt(wide.var(1) + 1e-5)
    return x, w, b, mean, rstd, (wide - mean[:, None]) * rstd[:, None]


def layer_norm(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """The forward; a row takes three steps in the ragged case."""
    rows, columns, block = (5, 300, 128) if ragged else (8, 256, 256)
    x, w, b, mean, rstd, hat = _normalised(random, rows, columns)
    arguments = {
        "X": x, "Y": np.zeros_like(x), "W": w, "B": b, "Mean": np.zeros(rows, np.float32), "Rstd": np.zeros(rows, np.float32),
        "stride": columns, "N": columns, "eps": np.float32(1e-5),
    }  # fmt: skip
    wanted = {"Y": hat * w + b.astype(np.float64), "Mean": mean, "Rstd": rstd}
    return TritonLaunch(tutorial("05-layer-norm.py"), "_layer_norm_fwd_fused", f"{rows}x{columns}", arguments, {"BLOCK_SIZE": block}, wanted, (rows, 1, 1), ragged)  # fmt: skip


def layer_norm_dx(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """dX, and sums over some rows for dW and dB, which blocks add to one after another: a lock of each group orders them."""
    rows, columns, groups = (7, 100, 3) if ragged else (8, 128, 4)
    x, w, _, mean, rstd, hat = _normalised(random, rows, columns)
    dy = random.normal(0, 1, (rows, columns)).astype(np.float16)
    wide = dy.astype(np.float64)
    weighted = wide * w
    dx = (weighted - hat * (hat * weighted).mean(1, keepdims=True) - weighted.mean(1, keepdims=True)) * rstd[:, None]
    sums = [np.stack([part[g::groups].sum(0) for g in range(groups)]) for part in (wide * hat, wide)]
    arguments = {
        "DX": np.zeros_like(x), "DY": dy, "DW": np.zeros((groups, columns), np.float16), "DB": np.zeros((groups, columns), np.float16),
        "X": x, "W": w, "Mean": mean.astype(np.float32), "Rstd": rstd.astype(np.float32), "Lock": np.zeros(2 * groups, np.int32),
        "stride": columns, "N": columns,
    }  # fmt: skip
    constants = {"GROUP_SIZE_M": groups, "BLOCK_SIZE_N": 128}
    wanted = {"DX": dx, "DW": sums[0], "DB": sums[1]}
    return TritonLaunch(
        tutorial("05-layer-norm.py"), "_layer_norm_bwd_dx_fused", f"{rows}x{columns}, {groups} groups", arguments, constants, wanted,
        (rows, 1, 1), ragged, budget=2.0**-10,
    )  # fmt: skip


def layer_norm_dw(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """The sums of the groups' dW and dB."""
    groups, columns = (37, 100) if ragged else (32, 128)
    parts = [random.normal(0, 1, (groups, columns)).astype(np.float16) for _ in range(2)]
    arguments = {
        "DW": parts[0], "DB": parts[1], "FINAL_DW": np.zeros(columns, np.float16), "FINAL_DB": np.zeros(columns, np.float16),
        "M": groups, "N": columns,
    }  # fmt: skip
    wanted = {f"FINAL_{name}": part.astype(np.float64).sum(0) for name, part in zip(("DW", "DB"), parts, strict=True)}
    constants = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64}
    return TritonLaunch(tutorial("05-layer-norm.py"), "_layer_norm_bwd_dwdb", f"{groups}x{columns}", arguments, constants, wanted, (2, 1, 1), ragged)  # fmt: skip


CASES: dict[str, Maker] = {
    "softmax": softmax, "matmul": matmul, "matmul, persistent": persistent, "matmul, TMA": tma, "matmul, TMA, warp-specialised": specialised,
    "matmul, TMA, persistent": tma_persistent, "layer norm": layer_norm, "layer norm, dX": layer_norm_dx, "layer norm, dW": layer_norm_dw,
}  # fmt: skip
