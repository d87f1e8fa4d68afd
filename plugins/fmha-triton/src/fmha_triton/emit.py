"""Codegen: the complete source text of one kernel, with all that decides its build in the last line.

The text is Triton's language: the shared functions, the functions of the kernel, and a comment ``# build: {...}`` in JSON with the
function, the target, the types, the constants and the options. Nothing here imports Triton.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fmha_cli import api, plugin
from fmha_triton.algorithm import Language, TritonAlgorithm, target_of
from fmha_triton.catalogue import BLACKWELL, HOPPER, algorithm_of, function_of

MARK = "# build: "
_FILES = {
    "forward": "forward",
    "split": "split",
    "combine": "split",
    "dot_do_o": "backward",
    "dq_dk_dv": "backward",
    HOPPER: "hopper",
    BLACKWELL: "blackwell",
}
_SHARED = "fmha_triton.kernels"
_BEFORE = {HOPPER: (), BLACKWELL: ("channels", "tiles", "layouts")}
"""The files that come before a kernel's own in its text, if not the functions of all kernels in Triton's language."""
_HALF_TYPES = {"fp16": "fp16", "bf16": "bf16", "fp32": "fp32"}
_TABLES = ("Table", "QStart", "QLen", "KStart", "KLen")
_NUMBERS = ("scale", "softcap")
_LARGE = ("_batch", "_head")
_SMALL = ("slope_batch", "descale_batch", "descale_head")
_INPUTS = ("Q", "K", "V")
_OUTPUTS = ("Out",)
_GRADIENTS = ("DOut", "DQ", "DK", "DV")
_BYTES = 16
MAPS = {"QMap": "q", "KMap": "k", "VMap": "v", "OutMap": "o"}
"""Parameters that are TMA descriptors, and the tensors that they describe."""
_SWIZZLE_BYTES = 128
_MAX_REGISTERS = {HOPPER: 168, BLACKWELL: 128}
"""Registers of a thread at launch: 65,536 over 384 or 512 threads, in steps of 8. Warps that need few give theirs back."""
_TURNS_HDIM = 64
"""Head dim whose products are so short that both halves of a tile would compute exp2 at once."""
_ROWS_AXIS, _HDIM_AXIS = 2, 3


@dataclass(frozen=True)
class Argument:
    """One argument at run time. ``type`` is Triton's: ``*fp16``, ``i32``, ``fp32``."""

    name: str
    type: str


@cache
def text_of(file: str) -> str:
    """The text of a file of ``kernels/``, without its imports from the others."""
    text = resources.files("fmha_triton").joinpath("kernels", f"{file}.py").read_text("utf-8")
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_SHARED):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines)


@cache
def parameters(function: str) -> tuple[tuple[str, bool], ...]:
    """(name, whether it is a compile-time constant) of every parameter of a kernel, in order."""
    tree = ast.parse(text_of(_FILES[function]))
    found = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    return tuple((a.arg, a.annotation is not None) for a in found.args.args)


def arguments(kernel: api.KernelSpec) -> tuple[Argument, ...]:
    """The arguments at run time, in order."""
    return tuple(Argument(n, _type(kernel, n)) for n, constant in parameters(function_of(kernel)) if not constant)


def _type(kernel: api.KernelSpec, name: str) -> str:
    signature = kernel.signature
    if name in MAPS:
        return _map_type(kernel, name)
    if name in _INPUTS or name in _GRADIENTS:
        return f"*{element_of(kernel)}"
    if name in _OUTPUTS:
        return f"*{_HALF_TYPES[signature.dtype_out.value]}"
    if name == "Bias":
        return (
            f"*{_HALF_TYPES[signature.dtype.bias.value]}" if signature.bias is plugin.BiasKey.ELEMENTWISE else "*fp32"
        )
    if name in _TABLES:
        return "*i32"
    if name[0].isupper():
        return "*fp32"
    if name in _NUMBERS:
        return "fp32"
    return "i64" if name.endswith(_LARGE) and name not in _SMALL else "i32"


def cga_layout(kernel: api.KernelSpec, name: str) -> list[list[int]]:
    """The CGA layout of a descriptor's box: for each doubling of the CTAs, the step along (batch, heads, rows, head dim).

    The CTAs split the rows of Q and O. Two that compute a product together each have half of the rows of K, and half
    of the columns of V, and all such pairs have the same ones.
    """
    bases = [[0, 0, 0, 0] for _ in range(algorithm_of(kernel).num_ctas.bit_length() - 1)]
    axis = _HDIM_AXIS if name == "VMap" else _ROWS_AXIS
    for n, basis in enumerate(bases[:1] if name in ("KMap", "VMap") else bases):
        basis[axis] = 1 << n
    return bases


def _box_rows(kernel: api.KernelSpec, name: str) -> int:
    """Rows of a box, of all CTAs of a cluster together."""
    algorithm = algorithm_of(kernel)
    if name in ("KMap", "VMap"):
        return algorithm.block_n
    return algorithm.block_m // (2 if function_of(kernel) == BLACKWELL else 1)


def rows_per_copy(kernel: api.KernelSpec, name: str) -> int:
    """Rows that one copy of a descriptor moves: those of one CTA."""
    return _box_rows(kernel, name) >> sum(basis[_ROWS_AXIS] > 0 for basis in cga_layout(kernel, name))


def map_dtype(kernel: api.KernelSpec, name: str) -> plugin.DType:
    """The type of the tensor that a descriptor describes."""
    return kernel.signature.dtype_out if name == "OutMap" else kernel.signature.dtype


def _box_columns(kernel: api.KernelSpec, name: str) -> int:
    """Columns of a box, of all CTAs of a cluster together: the head dim of its tensor, and of K at least that of V.

    The buffers of the ring of K and V have the size of a box of K. TMA fills columns behind the head dim of Q and K with zeros.
    """
    hdim, hdim_v = kernel.signature.hdim, kernel.signature.hdim_v
    return hdim_v if name in ("VMap", "OutMap") else max(hdim, hdim_v)


def swizzle_bytes(kernel: api.KernelSpec, name: str) -> int:
    """The width of a swizzle, which is what one copy moves of a row: longer rows of a CTA are moved in parts."""
    columns = _box_columns(kernel, name) >> sum(basis[_HDIM_AXIS] > 0 for basis in cga_layout(kernel, name))
    return min(_SWIZZLE_BYTES, columns * map_dtype(kernel, name).bits // 8)


def _map_type(kernel: api.KernelSpec, name: str) -> str:
    """Triton's type of a descriptor with the axes (batch, heads, rows, head dim), swizzled over as many bytes of a row as can be."""
    block = f"1,1,{_box_rows(kernel, name)},{_box_columns(kernel, name)}"
    layout = (
        f"swizzle_byte_width={swizzle_bytes(kernel, name)}, element_bitwidth={map_dtype(kernel, name).bits}, rank=4, "
        f"transposed=False, fp4_padded=False, cga_layout={cga_layout(kernel, name)}"
    )
    element = _HALF_TYPES[kernel.signature.dtype_out.value] if name == "OutMap" else element_of(kernel)
    return f"tensordesc<{element}[{block}],NVMMASharedLayout({layout})>"


def element_of(kernel: api.KernelSpec) -> str:
    """Triton's name of the type of Q, K and V."""
    signature = kernel.signature
    if not signature.dtype.is_fp8:
        return _HALF_TYPES[signature.dtype.value]
    suffix = "_fnuz" if signature.fp8_encoding is plugin.Fp8Key.FNUZ else ""
    return dict(target_of(kernel.arch).fp8)[f"{signature.dtype.value}{suffix}"]


def divisible(kernel: api.KernelSpec) -> dict[str, int]:
    """The divisor of an argument that the compiler may assume (addresses in bytes, strides in elements)."""
    step = _BYTES if kernel.signature.dtype.is_fp8 else _BYTES // 2
    out: dict[str, int] = {}
    for argument in arguments(kernel):
        name = argument.name
        if name in (*_INPUTS, *_OUTPUTS, *_GRADIENTS, "PartialOut"):
            out[name] = _BYTES
        elif name.startswith(("q_", "k_", "v_")) or name in ("hdim", "hdim_v"):
            out[name] = step
        elif name.startswith(("o_", "do_", "dq_", "dk_", "dv_")):
            out[name] = _BYTES // 2
    return out


def constants(kernel: api.KernelSpec) -> dict[str, int | bool]:
    """The compile-time constants by name."""
    s, a = kernel.signature, algorithm_of(kernel)
    kinds = {plugin.BiasKey.ELEMENTWISE: 1, plugin.BiasKey.ALIBI: 2}
    known: dict[str, int | bool] = {
        "D": s.hdim_v,  # where Q and K have another one, the kernel takes it from their descriptors
        "BM": a.block_m,
        "BN": a.block_n,
        "MASK": s.mask is not plugin.MaskKey.NONE,
        "BIAS": kinds.get(s.bias, 0),
        "SOFTCAP": s.softcap is plugin.Need.YES,
        "DESCALE": s.qscale is not plugin.QScaleKey.NONE,
        "PAD": a.pad,
        "WIDEN": s.dtype.is_fp8,
        "PAGED": s.cache is plugin.CacheKey.PAGED,
        "CAUSAL": s.mask is plugin.MaskKey.CAUSAL,
        "BUFFERS": a.num_stages,
        "TURNSTILE": max(s.hdim, s.hdim_v) == _TURNS_HDIM,
        "WARPS": a.num_warps,
    }
    return {name: known[name] for name, constant in parameters(function_of(kernel)) if constant}


def options(kernel: api.KernelSpec, algorithm: TritonAlgorithm) -> dict[str, int | bool]:
    """Triton's options. Each is written out, so no default of a release or of the environment decides."""
    if algorithm.language is Language.GLUON:
        return {
            "num_warps": algorithm.num_warps,
            "num_ctas": algorithm.num_ctas,
            "maxnreg": _MAX_REGISTERS[function_of(kernel)],
            "enable_fp_fusion": True,
        }
    common = {"num_warps": algorithm.num_warps, "num_stages": algorithm.num_stages, "enable_fp_fusion": True}
    return common | ({"waves_per_eu": algorithm.waves_per_eu} if target_of(kernel.arch).kind == "hip" else {})


def emit(kernel: api.KernelSpec) -> str:
    """The source text. It is a pure function of the kernel and of the files of ``kernels/``."""
    function, target = function_of(kernel), target_of(kernel.arch)
    build = {
        "function": function,
        "gluon": algorithm_of(kernel).language is Language.GLUON,
        "target": [target.kind, target.arch, target.wave],
        "arguments": [[a.name, a.type] for a in arguments(kernel)],
        "constants": constants(kernel),
        "divisible": divisible(kernel),
        "options": options(kernel, algorithm_of(kernel)),
    }
    shared = _BEFORE.get(function, ("common",))
    return "\n".join((*map(text_of, shared), text_of(_FILES[function]), MARK + json.dumps(build, sort_keys=True), ""))
