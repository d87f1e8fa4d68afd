"""Rules K400-K419: which kernels FlashAttention has. They read the kernel and its architecture's facts only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fmha_cli.backends.flash_attn.signatures import CONSTANTS, DTYPES, FAMILIES, MAIN, MASKS, NAME
from fmha_cli.backends.flash_attn.tiles import (
    EVEN_MN_HDIM,
    HDIMS,
    LOG_MAX_SPLITS,
    backward_traits,
    facts_of,
    forward_traits,
    split_traits,
    stage_traits,
)
from fmha_cli.backends.gpu.conditions import KernelRules, known_arch, refuse
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.traits import BACKWARD, algorithm_of, combine_rows, traits_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need, RotaryKey

NO_ARCH = "K400"
"""The rule that refuses kernels for an architecture without FlashAttention."""
_COMBINE = (Family.FWD_SPLITKV_COMBINE,)
_OWNERS: Mapping[str, tuple[Family, ...]] = MappingProxyType(
    {
        "even_mn": MAIN,
        "even_k": (*MAIN, *_COMBINE),
        "v_in_regs": BACKWARD,
        "single_buffer": BACKWARD,
        "combine_rows": _COMBINE,
        "log_max_splits": _COMBINE,
        "clear_dq_accum": (Family.BWD_DOT_DO_O,),
    }
)
"""Fields of the algorithm that only some families have. In other families they are false or 0."""


def _form(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    lengths, atoms = (len(a.tile), len(a.atoms)), 3 if kernel.family in BACKWARD else 0
    if lengths != (2, atoms):
        text = f"tile and atoms have {lengths[0]} and {lengths[1]} numbers"
        return Refusal(text, f"2 and {atoms} for {kernel.family.value}")
    if min((*a.tile, *a.atoms, a.warps)) <= 0:
        return Refusal(f"{min((*a.tile, *a.atoms, a.warps))} in tile, atoms or warps", "numbers above 0")
    extra = [name for name, families in _OWNERS.items() if kernel.family not in families and getattr(a, name)]
    if extra:
        return Refusal(f"{kernel.family.value} has no {extra[0]}", f"{extra[0]} left out")
    return None


def _run_time(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    for name, value in CONSTANTS[kernel.family].items():
        have = getattr(kernel.signature, name)
        if have != value:
            return Refusal(f"{name} {have}: all {kernel.family.value} kernels have {value}", f"{name} {value}")
    return None


def _compiled(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    for name in ("softcap", "dropout", "split", "append"):
        if getattr(kernel.signature, name) is Need.ANY:
            return Refusal(f"{name} any: it is a template argument", f"{name} no or yes")
    return None


def _rotary(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    want = RotaryKey.NONE if s.append is Need.NO else RotaryKey.ANY
    if s.rotary is want:
        return None
    return Refusal(f"rotary {s.rotary.value} with append {s.append.value}", f"rotary {want.value}")


def _mode(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    mode = ModeKey.BATCH if algorithm_of(kernel).even_mn else ModeKey.ANY
    if kernel.signature.mode is mode:
        return None
    text = f"mode {kernel.signature.mode.value} with even_mn {str(algorithm_of(kernel).even_mn).lower()}"
    return Refusal(text, f"mode {mode.value}")


def _even_lengths(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if not algorithm_of(kernel).even_mn:
        return None
    if s.mask is MaskKey.WINDOW:
        return Refusal("even_mn with a window", "even_mn no")
    if s.append is not Need.NO:
        return Refusal("even_mn with appended keys", "even_mn no")
    return Refusal(f"even_mn with hdim {s.hdim}", "even_mn no") if s.hdim > EVEN_MN_HDIM else None


def _fits(kernel: KernelSpec, traits: FaAlgorithm) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    if (algorithm.tile, algorithm.warps) == (traits.tile, traits.warps):
        return None
    have, want = (f"{a.tile[0]} rows by {a.tile[1]} keys with {a.warps} warps" for a in (algorithm, traits))
    return Refusal(f"{have}: upstream takes {want} for hdim {kernel.signature.hdim} on {kernel.arch}", want)


def _forward(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.hdim not in HDIMS:
        return None  # K404 refuses it
    return _fits(kernel, forward_traits(s.hdim, s.dropout is Need.YES, s.mask is MaskKey.CAUSAL, facts_of(arch)))


def _split(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    return _fits(kernel, split_traits(kernel.signature.hdim)) if kernel.signature.hdim in HDIMS else None


def _backward(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s, have, facts = kernel.signature, traits_of(kernel), facts_of(arch)
    if s.hdim not in HDIMS:
        return None
    able: list[FaAlgorithm | None]
    if kernel.family is Family.BWD_DQ_DK_DV:
        able = [backward_traits(s.hdim, s.dropout is Need.YES, facts)]
    else:
        able = list(stage_traits(s.hdim, facts))
    if have in able or None in able:
        return None
    want = " or ".join(_describe(traits) for traits in able if traits)
    return Refusal(f"{_describe(have)}: upstream takes {want} for hdim {s.hdim} on {kernel.arch}", want)


def _describe(traits: FaAlgorithm) -> str:
    flags = f"V in {'registers' if traits.v_in_regs else 'shared memory'}"
    buffers = "one buffer of Q" if traits.single_buffer else "two buffers of Q"
    atoms = "x".join(map(str, traits.atoms))
    return f"{traits.tile[0]} rows by {traits.tile[1]} keys, {traits.warps} warps, atoms {atoms}, {flags}, {buffers}"


def _combined(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
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
    text = (
        f"hdim {s.hdim} backwards with dropout: {kernel.arch} has {facts.block // 1024} KiB of shared memory per block"
    )
    return Refusal(text, "dropout no, or hdim 192")


_CHECKS: Mapping[str, Callable[[KernelSpec, ArchSpec], Refusal | None]] = MappingProxyType(
    {
        # ``KernelRules`` refuses the architecture itself, before any rule reads its facts.
        NO_ARCH: lambda kernel, arch: None,
        "K401": refuse(
            lambda k, arch: k.family not in FAMILIES,
            lambda k, arch: f"FlashAttention has no {k.family.value} kernels",
            ", ".join(f.value for f in FAMILIES),
        ),
        "K402": _form,
        "K403": refuse(
            lambda k, arch: k.signature.dtype not in DTYPES or k.signature.dtype_out is not k.signature.dtype,
            lambda k, arch: f"dtype {k.signature.dtype.value} with output {k.signature.dtype_out.value}",
            "fp16 or bf16 for both",
        ),
        "K404": refuse(
            lambda k, arch: k.signature.hdim not in HDIMS or k.signature.hdim_v != k.signature.hdim,
            lambda k, arch: f"hdim {k.signature.hdim} with hdim_v {k.signature.hdim_v}",
            f"one of {', '.join(map(str, HDIMS))} for both",
        ),
        "K405": _run_time,
        "K406": refuse(
            lambda k, arch: k.signature.mask not in MASKS,
            lambda k, arch: f"mask {k.signature.mask.value}",
            ", ".join(mask.value for mask in MASKS),
        ),
        "K407": refuse(
            lambda k, arch: k.signature.bias not in (BiasKey.NONE, BiasKey.ALIBI),
            lambda k, arch: f"bias {k.signature.bias.value}",
            "none or alibi",
        ),
        "K408": _compiled,
        "K409": refuse(
            lambda k, arch: Need.NO not in (k.signature.softcap, k.signature.dropout),
            lambda k, arch: "softcap and dropout",
            "dropout no, or softcap no",
        ),
        "K410": _rotary,
        "K411": _mode,
        "K412": refuse(
            lambda k, arch: algorithm_of(k).even_mn and not algorithm_of(k).even_k,
            lambda k, arch: "even_mn without even_k",
            "even_mn no",
        ),
        "K413": _even_lengths,
        "K414": refuse(
            lambda k, arch: algorithm_of(k).even_k and k.signature.bias is BiasKey.ALIBI,
            lambda k, arch: "even_k with ALiBi",
            "even_k no",
        ),
        "K415": _forward,
        "K416": _split,
        "K417": _backward,
        "K418": _combined,
        "K419": _nothing,
    }
)
ALL = kernel_rules(NAME, _CHECKS)


def arch_facts(name: str) -> ArchSpec | None:
    """The facts of an architecture that FlashAttention has kernels for; None for any other."""
    arch = known_arch(name)
    return arch if arch is not None and NAME in arch.backends else None


def _no_arch(kernel: KernelSpec) -> Reason:
    return Reason(NO_ARCH, f"FlashAttention has no kernels for {kernel.arch}", "fmha archs", Severity.PLACE)


_RULES = KernelRules(ALL, arch_facts, _no_arch)
KERNEL_RULES: tuple[Rule, ...] = _RULES.rules()


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why FlashAttention has no such kernel; empty for a kernel that it has.

    Raises:
        InternalError: the kernel belongs to another backend.
    """
    algorithm_of(kernel)
    return _RULES.refusals(kernel)
