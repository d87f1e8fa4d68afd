"""Rules by which upstream's example generator prunes batch-prefill kernels."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import CkKernelRule, generator_rule
from fmha_cli.backends.ck_tile.revisions import BASELINE
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import ModeKey, QScaleKey


def _page_layout(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, page = algorithm_of(kernel), kernel.signature.page
    if a.rev == BASELINE or page != 1 or a.kv_layout.value == "linear":
        return None
    return Refusal(f"pages of one key in {a.kv_layout.value} layout", "kv_layout=linear")


def _block_scales(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bn0, page = algorithm_of(kernel).tile[1], kernel.signature.page
    if kernel.signature.qscale is not QScaleKey.KV_BLOCK or page >= bn0:
        return None
    return Refusal(f"scales per page of {page} keys with {bn0} keys per step", f"page >= {bn0}")


def _wide_loads(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, page = algorithm_of(kernel), kernel.signature.page
    if not a.wide_loads or page < a.tile[1]:
        return None
    return Refusal(f"64-bit loads with pages of {page} keys: pages of {a.tile[1]} or more need none", "wide_loads=no")


def _prefill_mode(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if algorithm_of(kernel).rev == BASELINE or kernel.signature.mode is ModeKey.GROUP:
        return None
    return Refusal("batch prefill in batch mode", "mode=group")


PREFILL_RULES: tuple[CkKernelRule, ...] = (
    generator_rule(
        "K221",
        "from 2026-08, batch prefill is in group mode",
        _prefill_mode,
        "mode rev",
        (Family.BATCH_PREFILL,),
        "The baseline's generator also emits batch mode; upstream's dispatcher refuses it.",
        "fmha_batch_prefill.py get_fwd_blobs",
        "21",
    ),
    generator_rule(
        "K283",
        "from 2026-08, pages of one key are in linear layout",
        _page_layout,
        "page kv_layout rev",
        (Family.BATCH_PREFILL,),
        "A vectorised layout orders the keys of a page; a page of one has none to order.",
        "fmha_batch_prefill.py get_fwd_blobs",
    ),
    generator_rule(
        "K284",
        "scales per page need pages of whole steps",
        _block_scales,
        "qscale page tile",
        (Family.BATCH_PREFILL,),
        "One scale per page is applied to a whole step of keys.",
        "fmha_batch_prefill.py get_fwd_blobs",
    ),
    generator_rule(
        "K285",
        "64-bit loads exist for pages shorter than a step",
        _wide_loads,
        "wide_loads page tile",
        (Family.BATCH_PREFILL,),
        "With pages of whole steps an offset within one page fits 32 bits.",
        "fmha_batch_prefill.py get_fwd_blobs",
    ),
)
