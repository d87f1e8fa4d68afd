"""Kernels that CK-Tile does not have, one for each rule over kernels: the rule refuses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.enumeration import emitted
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS
from fmha_cli.codegen.ck_tile.algorithm import KvLayout
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need
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
CONVERT = "fmha_bwd_convert_dq_d128_fp16_b64x128_batch_o2_npad_deterministic_gfx9"
SMALL = (
    "fmha_bwd_d128_fp16_batch_b16x16x128x16x128x16x16x128x128_r1x1x1_r1x1x1_r1x1x1_w16x16x32_w16x16x16_o2_maxq16_npad_"
    "nbias_ndbias_nmask_ndropout_ndeterministic_trload_gfx950"
)
LATER = (
    "fmha_batch_prefill_d128_fp16_group_ps16_64bit_b128x128x32x128x32x128_r4x1x1_r4x1x1_w32x32x16_w32x32x16_qr_async_vr_"
    "psskddv_nlogits_nbias_nmask_nlse_ndropout_nqscale_nsink_linear_sglang_gfx9"
)


def _pruned(id: str, arch: str, family: Family, revision: str = "baseline") -> KernelSpec:
    """A kernel of upstream's tables that this rule of its generator alone refuses."""
    facts, rules = load_arch(arch), [rule for rule in GENERATOR_RULES if rule.id != id]
    (own,) = (rule for rule in GENERATOR_RULES if rule.id == id)
    return next(e.kernel for e in emitted(facts, family, revision, rules) if own.found(e.kernel, facts))


PLANTED: dict[str, KernelSpec] = {
    "K200": ck_kernel(FWD, rev="2031-01"),
    "K201": replace(ck_kernel(FWD), arch="gfx1100"),
    "K202": replace(ck_kernel(PREFILL, rev="2026-08"), arch="gfx1201"),
    "K206": replace(ck_kernel(PREFILL), arch="gfx1201"),
    "K221": ck_kernel(PREFILL, mode=ModeKey.BATCH, rev="2026-08"),
    "K250": ck_kernel(FWD, pad_d=0),
    "K257": _pruned("K257", "gfx942", Family.FWD),
    "K259": _pruned("K259", "gfx942", Family.FWD),
    "K261": _pruned("K261", "gfx950", Family.FWD),
    "K262": _pruned("K262", "gfx950", Family.FWD, "2026-08"),
    "K264": _pruned("K264", "gfx1250", Family.FWD, "2026-08"),
    "K271": ck_kernel(FWD, mode=ModeKey.GROUP),
    "K272": _pruned("K272", "gfx942", Family.FWD),
    "K273": ck_kernel(SPLIT, softcap=Need.YES, bias=BiasKey.ALIBI),
    "K281": _pruned("K281", "gfx1201", Family.FWD_SPLITKV, "2026-08"),
    "K282": _pruned("K282", "gfx1100", Family.FWD_SPLITKV, "2026-08"),
    "K283": ck_kernel(LATER, revision="2026-08", page=1, kv_layout=KvLayout.VECTORIZED),
    "K284": _pruned("K284", "gfx942", Family.BATCH_PREFILL, "2026-08"),
    "K285": ck_kernel(LATER, revision="2026-08", page=1024),
    "K286": ck_kernel(SMALL, "gfx950", mask=MaskKey.ANY),
    "K287": ck_kernel(MAIN, dbias=Need.YES),
    "K288": ck_kernel(MAIN, pad_d=8),
    "K289": ck_kernel(CONVERT, deterministic=Need.NO),
    "K290": replace(ck_kernel(PREFILL), arch="gfx1201"),
    "K291": next(
        kernel
        for kernel in family_kernels(load_arch("gfx1201"), Family.BWD_DQ_DK_DV)
        if kernel.signature.deterministic is Need.YES
    ),
}
"""One kernel for each rule, which refuses it."""
