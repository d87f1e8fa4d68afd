"""Kernels that CK-Tile does not have, one for each rule over kernels: the rule refuses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS
from fmha_cli.codegen.ck_tile.algorithm import Constraint, KvLayout, Pipeline
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need, QScaleKey
from tests.support.referees.ck_tile.upstream_parse import parse_upstream_name


def ck_kernel(name: str, arch: str = "gfx942", revision: str = "baseline", **changed: Any) -> KernelSpec:
    """The kernel of upstream's name, with some fields changed."""
    kernel = parse_upstream_name(name, arch, revision)
    ours = {k: v for k, v in changed.items() if k in SIGNATURE_FIELDS}
    theirs = {k: v for k, v in changed.items() if k not in SIGNATURE_FIELDS}
    return replace(kernel, signature=replace(kernel.signature, **ours), algorithm=replace(kernel.algorithm, **theirs))


FWD = (
    "fmha_fwd_d128_fp16_batch_b128x128x32x128x32x128_r4x1x1_r4x1x1_w32x32x16_w32x32x16_qr_async_vr_psddv_nlogits_"
    "nbias_nmask_nlse_ndropout_nskip_nsquant_ntrload_gfx9"
)
PREFILL = (
    "fmha_batch_prefill_d128_fp16_group_b128x128x32x128x32x128_r4x1x1_r4x1x1_w32x32x16_w32x32x16_qr_async_vr_psskddv_"
    "nlogits_nbias_nmask_nlse_ndropout_nsquant"
)
SPLIT = (
    "fmha_fwd_splitkv_d128_fp16_batch_b64x128x32x128x32x128_r4x1x1_r4x1x1_w16x16x16_w16x16x16_qr_vr_psk_nlogits_nbias_"
    "nmask_lse_nsquant_npagedkv_gfx9"
)
MAIN = (
    "fmha_bwd_d128_fp16_batch_b16x128x128x16x128x16x32x128x128_r1x4x1_r4x1x1_r1x4x1_w16x16x32_w16x16x16_o1_maxq0_npad_"
    "nbias_ndbias_nmask_ndropout_ndeterministic_ntrload_gfx9"
)
APPEND = "fmha_fwd_appendkv_d128_fp16_b64x64x128x128_vr_psskddv_inter_pagedkv_gfx9"
PAGED = (
    "fmha_fwd_pagedkv_d128_fp16_batch_b128x128x32x128x32x128_r4x1x1_r4x1x1_w32x32x16_w32x32x16_qr_pagedkv_vr_ps_nlogits_"
    "nbias_nmask_nlse_nskip_nsquant_pagedkv_gfx9"
)
COMBINE = "fmha_fwd_splitkv_combine_d128_fp16_batch_b32_unused_psdv_lse_nsquant_gfx9"
CONVERT = "fmha_bwd_convert_dq_d128_fp16_b64x128_batch_o2_npad_deterministic_gfx9"
TRLOAD = (
    "fmha_fwd_d128_fp16_batch_b16x32x64x128x32x128_r1x1x1_r1x1x1_w16x16x32_w16x16x32_qr_async_trload_vr_npad_nlogits_"
    "nbias_nmask_nlse_ndropout_nskip_nsquant_trload_gfx950"
)
SMALL = (
    "fmha_bwd_d128_fp16_batch_b16x16x128x16x128x16x16x128x128_r1x1x1_r1x1x1_r1x1x1_w16x16x32_w16x16x16_o2_maxq16_npad_"
    "nbias_ndbias_nmask_ndropout_ndeterministic_trload_gfx950"
)
LATER = (
    "fmha_batch_prefill_d128_fp16_group_ps16_64bit_b128x128x32x128x32x128_r4x1x1_r4x1x1_w32x32x16_w32x32x16_qr_async_vr_"
    "psskddv_nlogits_nbias_nmask_nlse_ndropout_nqscale_nsink_linear_sglang_gfx9"
)
GFX11 = Pipeline.BATCH_PREFILL_GFX11


def _gfx11(**changed: Any) -> KernelSpec:
    """A kernel in the form that upstream's pipeline for gfx1100 would give it."""
    shape = {"tile": (128, 32, 32, 128, 32, 128), "waves": (4, 2, 1, 8, 1, 1), "warp": (16,) * 6}
    kernel = ck_kernel(PREFILL, pipeline=GFX11, **{**shape, "kv_layout": KvLayout.LINEAR, **changed})
    return replace(kernel, arch="gfx1100")


PLANTED: dict[str, KernelSpec] = {
    "K200": ck_kernel(FWD, rev="2031-01"),
    "K201": replace(ck_kernel(FWD), arch="gfx1100"),
    "K202": replace(ck_kernel(PREFILL, rev="2026-08"), arch="gfx1201"),
    "K203": ck_kernel(FWD, dtype=DType.MXFP8, dtype_out=DType.BF16, rev="2026-08"),
    "K204": ck_kernel(MAIN, dtype=DType.FP8_E4M3, dtype_out=DType.BF16),
    "K205": ck_kernel(FWD, dtype=DType.FP8_E5M2, dtype_out=DType.FP8_E5M2),
    "K206": replace(ck_kernel(PREFILL), arch="gfx1201"),
    "K214": ck_kernel(FWD, tile=(128, 128)),
    "K217": ck_kernel(FWD, waves=(0, 1, 1, 4, 1, 1)),
    "K221": ck_kernel(PREFILL, mode=ModeKey.BATCH, rev="2026-08"),
    "K249": ck_kernel(FWD, tile=(128, 128, 32, 128, 64, 128)),
    "K250": ck_kernel(FWD, pad_d=0),
    "K257": ck_kernel(FWD, tile=(128, 64, 32, 128, 32, 128)),
    "K259": ck_kernel(FWD, hdim=64, hdim_v=64, tile=(64, 64, 32, 64, 32, 64)),
    "K261": ck_kernel(TRLOAD, "gfx950", tile=(16, 128, 64, 128, 32, 128)),
    "K262": ck_kernel(FWD, tile=(256, 128, 32, 128, 32, 128)),
    "K271": ck_kernel(FWD, mode=ModeKey.GROUP),
    "K272": ck_kernel(FWD, hdim=192, bias=BiasKey.ALIBI),
    "K273": ck_kernel(SPLIT, softcap=Need.YES, bias=BiasKey.ALIBI),
    "K281": ck_kernel(SPLIT, waves=(1, 4, 1, 1, 4, 1)),
    "K282": ck_kernel(SPLIT, constraint=Constraint.SHORT_PAGES),
    "K283": ck_kernel(LATER, revision="2026-08", page=1, kv_layout=KvLayout.VECTORIZED),
    "K284": ck_kernel(LATER, revision="2026-08", qscale=QScaleKey.KV_BLOCK),
    "K285": ck_kernel(LATER, revision="2026-08", page=1024),
    "K286": ck_kernel(SMALL, "gfx950", mask=MaskKey.ANY),
    "K287": ck_kernel(MAIN, dbias=Need.YES),
    "K288": ck_kernel(MAIN, pad_d=8),
    "K289": ck_kernel(CONVERT, deterministic=Need.NO),
    "K290": replace(ck_kernel(FWD), arch="gfx1201"),
    "K291": ck_kernel(FWD, arch="gfx90a", dtype=DType.FP8_E4M3, dtype_out=DType.BF16, hdim=64),
}
"""One kernel for each rule, which refuses it; K263 and K264 have separate tests."""
