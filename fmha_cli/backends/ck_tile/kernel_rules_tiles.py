"""Rules over tiles: upstream's dispatcher sweep filters T1 to T13, where its example generator agrees with them."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import Check, CkKernelRule, Stage, cdna_class, ck_rule, class_of
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Constraint, Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal

_SWEEP = "dispatcher/codegen/fmha/instance_gen.py"
_MATRIX = (Family.FWD, Family.FWD_SPLITKV, Family.FWD_PAGEDKV, Family.BATCH_PREFILL)
_WORD_BITS = 32
_SYNC_BYTES = 65536
"""LDS bytes that the tiles of Q and K may use in a pipeline without asynchronous copies."""
_ASYNC_BYTES = 163840
"""LDS bytes that three buffers of K or V may use. Upstream applies this limit to every architecture."""
_PACK_BITS = 128
_MX = (DType.MXFP8, DType.MXFP4)


def _bits(kernel: KernelSpec) -> int:
    return kernel.signature.dtype.bits


def _steps(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bk0, hdim = algorithm_of(kernel).tile[2], kernel.signature.hdim
    if bk0 <= hdim and hdim % bk0 == 0:
        return None
    return Refusal(f"steps of {bk0} along head dim {hdim}", "a divisor of the head dim")


def _whole_products(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    for name, whole, part in zip(("bm0", "bn0", "bk0"), a.tile[:3], a.warp[:3], strict=True):
        if whole % part:
            return Refusal(f"{name} {whole} with wave products of {part}", f"a multiple of {part}")
    return None


def _sync_lds(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    size = (a.tile[0] + a.tile[1]) * a.tile[2] * _bits(kernel) // 8
    if a.pipeline not in (Pipeline.QR, Pipeline.QS) or size <= _SYNC_BYTES:
        return None
    return Refusal(f"{size} bytes of Q and K tiles", f"at most {_SYNC_BYTES}")


def async_buffer_bytes(kernel: KernelSpec, arch: ArchSpec) -> int:
    """LDS bytes of the three buffers of a ``qr_async`` kernel, by upstream's formula (rule T4)."""
    a, bits = algorithm_of(kernel), _bits(kernel)
    pack = _PACK_BITS // bits
    row, lanes = int(arch.fact("lds_banks")) * _WORD_BITS // bits, int(arch.fact("wavefront_size"))
    values = a.tile[4] // pack * (kernel.signature.hdim_v // (row // pack)) * (row + pack)
    load = _load(kernel)
    groups = max(lanes // max(a.tile[2] // load, 1), 1)
    waves = _waves(a)
    issues = -(-a.tile[1] // (groups * waves))
    keys = issues * waves * (lanes * load + pack)
    return 3 * max(keys, values) * bits // 8


def _load(kernel: KernelSpec) -> int:
    """Elements that a lane copies at once: one word on every architecture (four on gfx950 in upstream's formula)."""
    return _WORD_BITS // _bits(kernel)


def _waves(a: CkAlgorithm) -> int:
    return a.waves[0] * a.waves[1] * a.waves[2]


def _async_lds(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if algorithm_of(kernel).pipeline is not Pipeline.QR_ASYNC:
        return None
    size = async_buffer_bytes(kernel, arch)
    return None if size <= _ASYNC_BYTES else Refusal(f"{size} bytes of buffers", f"at most {_ASYNC_BYTES}")


def _async_copies(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if a.pipeline is not Pipeline.QR_ASYNC or not cdna_class(kernel):
        return None
    whole, part = a.tile[1] * a.tile[2], _waves(a) * int(arch.fact("wavefront_size")) * _load(kernel)
    return None if whole % part == 0 else Refusal(f"{whole} elements of K in copies of {part}", f"a multiple of {part}")


def _async_rows(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, hdims = algorithm_of(kernel), (kernel.signature.hdim, kernel.signature.hdim_v)
    small = a.constraint is Constraint.FEW_BLOCKS_64
    if a.pipeline is not Pipeline.QR_ASYNC or not cdna_class(kernel) or hdims != (128, 128):
        return None
    if a.tile[0] == 128 or small:
        return None
    return Refusal(f"qr_async at head dim 128 with {a.tile[0]} rows per block", "bm0 = 128")


def _short_steps(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, s = algorithm_of(kernel), kernel.signature
    plain = a.pipeline in (Pipeline.QR, Pipeline.QS) and cdna_class(kernel) and s.dtype not in _MX
    if not plain or (s.hdim, s.hdim_v) != (128, 128) or a.tile[2] != 64:
        return None
    return Refusal(f"{a.pipeline.value} at head dim 128 with steps of 64", "bk0 = 32")


def _square(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, s = algorithm_of(kernel), kernel.signature
    if a.pipeline is not Pipeline.QR_HPAD or class_of(kernel) not in ("gfx11", "gfx115"):
        return None
    if (s.hdim, s.hdim_v) != (128, 128) or a.tile[:2] != (64, 64):
        return None
    return Refusal("qr_hpad at head dim 128 with the tile of 64 rows and keys", "bm0 = 128")


def _rule(id: str, text: str, check: Check, reads: str, help: str, families: tuple[Family, ...]) -> CkKernelRule:
    return ck_rule(id, text, check, reads, families, Stage.TABLE, help, _SWEEP, f"T{int(id[1:]) - 250}")


_FWD = (Family.FWD,)
TILE_RULES: tuple[CkKernelRule, ...] = (
    _rule("K251", "the head dim is made of whole steps", _steps, "tile hdim", "Q K sums over steps of bk0.", _MATRIX),
    _rule(
        "K252",
        "the tile is made of whole wave products",
        _whole_products,
        "tile warp",
        "Rows, keys and steps are multiples of the product of one wave.",
        _MATRIX,
    ),
    _rule(
        "K253",
        "qr, qs: the tiles of Q and K take at most 64 KiB",
        _sync_lds,
        "pipeline tile dtype",
        "A bound on LDS that upstream's dispatcher uses for every architecture.",
        _MATRIX,
    ),
    _rule(
        "K254",
        "qr_async: three buffers of K or V take at most 160 KiB",
        _async_lds,
        "pipeline tile waves dtype hdim_v",
        "Upstream's dispatcher uses gfx950's LDS for every architecture; a kernel that does not fit a smaller one fails "
        "to compile.",
        _MATRIX,
    ),
    _rule(
        "K256",
        "qr_async on CDNA: the tile of K is made of whole copies",
        _async_copies,
        "pipeline tile waves dtype rev",
        "Each lane copies one word. Upstream's dispatcher counts four words on gfx950, which its example generator's "
        "tile at head dim 32 does not meet; the generator decides.",
        _MATRIX,
    ),
    _rule(
        "K258",
        "qr_async on CDNA at head dim 128: 128 rows per block, or 64 for small grids",
        _async_rows,
        "pipeline tile hdim hdim_v constraint rev",
        "Upstream's dispatcher takes 128 alone; its example generator of 2026-08 adds 64 for small grids, and decides.",
        _FWD,
    ),
    _rule(
        "K260",
        "qr, qs on CDNA at head dim 128: not steps of 64",
        _short_steps,
        "pipeline tile hdim hdim_v dtype rev",
        "But for mxfp8 and mxfp4, whose products are that long.",
        _FWD,
    ),
    _rule(
        "K263",
        "gfx11: qr_hpad at head dim 128 not with 64 rows and 64 keys",
        _square,
        "pipeline tile hdim hdim_v rev",
        "The pipeline pads the head dim in registers, of which that tile leaves too few.",
        _FWD,
    ),
)
"""T5 is K215; T7, T9, T11, T12 and T14 are the generator's own conditions (K257, K259, K261, K262, K264)."""
