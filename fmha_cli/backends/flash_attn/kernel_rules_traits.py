"""Rules K411-K419: the evenness, tiles and warps that upstream's launch templates allow."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.citations import BACKWARD_LAUNCH, FORWARD_LAUNCH
from fmha_cli.backends.flash_attn.signatures import MAIN
from fmha_cli.backends.flash_attn.tiles import (
    EVEN_MN_HDIM,
    HDIMS,
    LOG_MAX_SPLITS,
    BackwardTraits,
    ForwardTraits,
    backward_traits,
    facts_of,
    forward_traits,
    split_traits,
    stage_traits,
)
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.codegen.flash_attn.traits import BACKWARD, algorithm_of, combine_rows
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need


def _mode(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    mode = ModeKey.BATCH if algorithm_of(kernel).even_mn else ModeKey.ANY
    if kernel.signature.mode is mode:
        return None
    text = f"mode {kernel.signature.mode.value} with even_mn {str(algorithm_of(kernel).even_mn).lower()}"
    return Refusal(text, f"mode {mode.value}")


def _even_pair(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    if algorithm.even_k or not algorithm.even_mn:
        return None
    return Refusal("even_mn without even_k", "even_mn no")


def _even_lengths(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if not algorithm_of(kernel).even_mn:
        return None
    if s.mask is MaskKey.WINDOW:
        return Refusal("even_mn with a window", "even_mn no")
    if s.append is not Need.NO:
        return Refusal("even_mn with appended keys", "even_mn no")
    return Refusal(f"even_mn with hdim {s.hdim}", "even_mn no") if s.hdim > EVEN_MN_HDIM else None


def _even_alibi(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if not algorithm_of(kernel).even_k or kernel.signature.bias is not BiasKey.ALIBI:
        return None
    return Refusal("even_k with ALiBi", "even_k no")


def _fits(kernel: KernelSpec, traits: ForwardTraits) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    if (algorithm.tile, algorithm.warps) == (traits.tile, traits.warps):
        return None
    have, want = (
        f"{rows} rows by {keys} keys with {warps} warps"
        for (rows, keys), warps in ((algorithm.tile, algorithm.warps), (traits.tile, traits.warps))
    )
    return Refusal(f"{have}: upstream takes {want} for hdim {kernel.signature.hdim} on {kernel.arch}", want)


def _forward(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.hdim not in HDIMS:
        return None  # K404 refuses it
    return _fits(kernel, forward_traits(s.hdim, s.dropout is Need.YES, s.mask is MaskKey.CAUSAL, facts_of(arch)))


def _split(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    return _fits(kernel, split_traits(kernel.signature.hdim)) if kernel.signature.hdim in HDIMS else None


def _backward(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s, a, facts = kernel.signature, algorithm_of(kernel), facts_of(arch)
    if s.hdim not in HDIMS:
        return None
    able: list[BackwardTraits | None]
    if kernel.family is Family.BWD_DQ_DK_DV:
        able = [backward_traits(s.hdim, s.dropout is Need.YES, facts)]
    else:
        able = list(stage_traits(s.hdim, facts))
    have = BackwardTraits(
        (a.tile[0], a.tile[1]), a.warps, (a.atoms[0], a.atoms[1], a.atoms[2]), a.v_in_regs, a.single_buffer
    )
    if have in able or None in able:
        return None
    want = " or ".join(_told(traits) for traits in able if traits)
    return Refusal(f"{_told(have)}: upstream takes {want} for hdim {s.hdim} on {kernel.arch}", want)


def _told(traits: BackwardTraits) -> str:
    flags = f"V in {'registers' if traits.v_in_regs else 'shared memory'}"
    buffers = "one buffer of Q" if traits.single_buffer else "two buffers of Q"
    atoms = "x".join(map(str, traits.atoms))
    return f"{traits.tile[0]} rows by {traits.tile[1]} keys, {traits.warps} warps, atoms {atoms}, {flags}, {buffers}"


def _combine(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, rows = algorithm_of(kernel), combine_rows(kernel.signature.hdim)
    if a.combine_rows != rows:
        return Refusal(f"combine_rows {a.combine_rows} with hdim {kernel.signature.hdim}", f"combine_rows {rows}")
    if a.log_max_splits not in LOG_MAX_SPLITS:
        return Refusal(f"log_max_splits {a.log_max_splits}", f"log_max_splits 1 to {LOG_MAX_SPLITS[-1]}")
    return None


def _nothing(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s, facts = kernel.signature, facts_of(arch)
    dropout = s.dropout is Need.YES
    if s.hdim not in HDIMS or backward_traits(s.hdim, dropout, facts) is not None:
        return None
    text = f"hdim {s.hdim} backwards with dropout: {kernel.arch} has {facts.block // 1024} KiB of shared memory a block"
    return Refusal(text, "dropout no, or hdim 192")


TRAITS_RULES: tuple[KernelRule, ...] = (
    KernelRule(
        "K411",
        "kernels for even lengths are for batches, others for batches and packed sequences",
        _mode,
        MAIN,
        "Is_even_MN is false for packed sequences, whatever their lengths.",
        f"{FORWARD_LAUNCH} run_flash_fwd: is_even_MN",
    ),
    KernelRule(
        "K412",
        "kernels for even lengths are for even head dims too",
        _even_pair,
        MAIN,
        "Upstream clears Is_even_MN without Is_even_K, to have fewer templates.",
        f"{FORWARD_LAUNCH} run_flash_fwd: IsEvenMNConst && IsEvenKConst",
    ),
    KernelRule(
        "K413",
        "kernels for even lengths have no window, append nothing, and end at head dim 128",
        _even_lengths,
        MAIN,
        "Upstream clears Is_even_MN in all three cases.",
        f"{FORWARD_LAUNCH} run_flash_splitkv_fwd: !Append_KV, !Is_local, kHeadDim <= 128",
    ),
    KernelRule(
        "K414",
        "kernels with ALiBi take any head dim of their bucket",
        _even_alibi,
        MAIN,
        "Upstream clears Is_even_K with ALiBi, to have fewer templates.",
        f"{FORWARD_LAUNCH} run_flash_fwd: IsEvenKConst && !Has_alibi",
    ),
    KernelRule(
        "K415",
        "tile and warps of a forward kernel are upstream's choice",
        _forward,
        (Family.FWD,),
        "It depends on head dim and dropout; on causality where compute capability is 8.6 or 8.9; and for head dim 256 "
        "on shared memory.",
        f"{FORWARD_LAUNCH} run_mha_fwd_hdim32 to run_mha_fwd_hdim256",
    ),
    KernelRule(
        "K416",
        "tile and warps of a split-KV kernel are upstream's choice",
        _split,
        (Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE),
        "64 rows by 256, 128 or 64 keys, by head dim alone; the combine kernel has the traits of its split-KV kernel.",
        f"{FORWARD_LAUNCH} run_mha_fwd_splitkv_dispatch",
    ),
    KernelRule(
        "K417",
        "the traits of a backward kernel are upstream's choice",
        _backward,
        BACKWARD,
        "They depend on head dim, dropout and shared memory. First and last stage share those of a main kernel.",
        f"{BACKWARD_LAUNCH} run_mha_bwd_hdim32 to run_mha_bwd_hdim256",
    ),
    KernelRule(
        "K418",
        "a combine kernel has rows by head dim, and 2 to 128 parts",
        _combine,
        (Family.FWD_SPLITKV_COMBINE,),
        "4 rows for head dims that 128 divides, 8 for 64, else 16; as many parts as a power of two holds.",
        f"{FORWARD_LAUNCH} run_flash_splitkv_fwd: kBlockM, Log_max_splits",
    ),
    KernelRule(
        "K419",
        "head dim 256 backwards with dropout needs 144 KiB of shared memory",
        _nothing,
        (Family.BWD_DQ_DK_DV,),
        "Compute capability 8.6, 8.9 and 12.0 have 99 KiB a block: upstream launches nothing there, without a word.",
        f"{BACKWARD_LAUNCH} run_mha_bwd_hdim256",
    ),
)
