"""Rules over tiles: upstream's dispatcher sweep filters T1 to T13, where its example generator agrees with them."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import cdna_class, class_of
from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Constraint, Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal

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


TILE_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K251": _steps,
        "K252": _whole_products,
        "K253": _sync_lds,
        "K254": _async_lds,
        "K256": _async_copies,
        "K258": _async_rows,
        "K260": _short_steps,
        "K263": _square,
    },
)
"""T5 is K215; T7, T9, T11, T12 and T14 are the generator's own conditions (K257, K259, K261, K262, K264)."""
