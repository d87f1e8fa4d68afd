"""Rules K400-K419: which kernels FlashAttention has. They read the kernel and its architecture's facts only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fmha_cli.backends.flash_attn.citations import API, SRC
from fmha_cli.backends.flash_attn.kernel_rules_traits import TRAITS_RULES
from fmha_cli.backends.flash_attn.signatures import CONSTANTS, DTYPES, FAMILIES, MAIN, MASKS, NAME
from fmha_cli.backends.flash_attn.tiles import HDIMS
from fmha_cli.backends.gpu.conditions import KernelRule, KernelRules, known_arch
from fmha_cli.codegen.flash_attn.traits import BACKWARD, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity
from fmha_cli.domain.signature import BiasKey, Need, RotaryKey

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


def _dtype(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.dtype in DTYPES and s.dtype_out is s.dtype:
        return None
    return Refusal(f"dtype {s.dtype.value} with output {s.dtype_out.value}", "fp16 or bf16 for both")


def _hdim(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.hdim in HDIMS and s.hdim_v == s.hdim:
        return None
    return Refusal(f"hdim {s.hdim} with hdim_v {s.hdim_v}", f"one of {', '.join(map(str, HDIMS))} for both")


def _run_time(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    for name, value in CONSTANTS[kernel.family].items():
        have = getattr(kernel.signature, name)
        if have != value:
            return Refusal(f"{name} {have}: all {kernel.family.value} kernels have {value}", f"{name} {value}")
    return None


def _mask(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    have = kernel.signature.mask
    return None if have in MASKS else Refusal(f"mask {have.value}", ", ".join(mask.value for mask in MASKS))


def _bias(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    have = kernel.signature.bias
    return None if have in (BiasKey.NONE, BiasKey.ALIBI) else Refusal(f"bias {have.value}", "none or alibi")


def _compiled(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    for name in ("softcap", "dropout", "split", "append"):
        if getattr(kernel.signature, name) is Need.ANY:
            return Refusal(f"{name} any: it is a template argument", f"{name} no or yes")
    return None


def _softcap_dropout(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if Need.NO in (s.softcap, s.dropout):
        return None
    return Refusal("softcap and dropout", "dropout no, or softcap no")


def _rotary(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    want = RotaryKey.NONE if s.append is Need.NO else RotaryKey.ANY
    if s.rotary is want:
        return None
    return Refusal(f"rotary {s.rotary.value} with append {s.append.value}", f"rotary {want.value}")


def _no_family(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if kernel.family in FAMILIES:
        return None
    return Refusal(f"FlashAttention has no {kernel.family.value} kernels", ", ".join(f.value for f in FAMILIES))


def _never(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    return None  # ``KernelRules`` refuses the architecture itself, before any rule reads its facts


ALL: tuple[KernelRule, ...] = (
    KernelRule(
        NO_ARCH,
        "FlashAttention has kernels for the architecture",
        _never,
        tuple(Family),
        "Architectures of NVIDIA's whose facts name the backend; fmha archs lists them.",
        "arch_specs/",
        form=True,
        severity=Severity.PLACE,
    ),
    KernelRule(
        "K401",
        "the family is one of FlashAttention's",
        _no_family,
        tuple(Family),
        "Pages and appended keys are arguments of the split-KV kernel, not families of their own.",
        f"{SRC}/generate_kernels.py, flash_fwd_launch_template.h, flash_bwd_launch_template.h",
        form=True,
    ),
    KernelRule(
        "K402",
        "tile, warps and atoms are numbers, and no field belongs to another family",
        _form,
        FAMILIES,
        "kBlockM and kBlockN; three AtomLayouts in backward traits, none in forward ones.",
        f"{SRC}/kernel_traits.h Flash_fwd_kernel_traits, Flash_bwd_kernel_traits",
        form=True,
    ),
    KernelRule(
        "K403",
        "inputs and output are fp16, or bf16",
        _dtype,
        FAMILIES,
        "elem_type is cutlass::half_t or cutlass::bfloat16_t.",
        f"{SRC}/static_switch.h FP16_SWITCH",
    ),
    KernelRule(
        "K404",
        "the head dim is 32, 64, 96, 128, 192 or 256, V's too",
        _hdim,
        FAMILIES,
        "Smaller head dims are served by the kernel of the next larger one.",
        f"{SRC}/static_switch.h HEADDIM_SWITCH",
    ),
    KernelRule(
        "K405",
        "what upstream's kernels take at run time, or not at all, is no template argument",
        _run_time,
        FAMILIES,
        "Log-sum-exps are always written; grouped heads, pages, rotary styles and the order of sums are run-time "
        "arguments; sinks, elementwise bias and quantised tensors are not there.",
        f"{SRC}/flash_fwd_launch_template.h DEFINE_FLASH_FORWARD_KERNEL, flash_bwd_launch_template.h",
    ),
    KernelRule(
        "K406",
        "a main kernel's mask is none, causal or a window",
        _mask,
        MAIN,
        "Is_causal and Is_local, which exclude each other; window sizes are run-time arguments.",
        f"{SRC}/flash_fwd_launch_template.h: static_assert(!(Is_causal && Is_local))",
    ),
    KernelRule("K407", "a main kernel's bias is none or ALiBi", _bias, MAIN, "Has_alibi.", f"{SRC}/mask.h apply_mask"),
    KernelRule(
        "K408",
        "softcap, dropout, splitting and appending are compiled in or out",
        _compiled,
        MAIN,
        "Is_softcap, Is_dropout, Split and Append_KV are template arguments.",
        f"{SRC}/flash_fwd_launch_template.h DEFINE_FLASH_FORWARD_KERNEL",
    ),
    KernelRule(
        "K409",
        "softcap and dropout exclude each other",
        _softcap_dropout,
        MAIN,
        "The launch templates would silently drop the dropout; the host code refuses before.",
        f"{API}: Softcapping does not support dropout for now",
    ),
    KernelRule(
        "K410",
        "only a kernel that appends keys rotates them",
        _rotary,
        (Family.FWD_SPLITKV,),
        "Rotary embedding is applied to Q and to the new keys, in the code of Append_KV.",
        f"{SRC}/flash_fwd_kernel.h compute_attn_1rowblock_splitkv",
    ),
    *TRAITS_RULES,
)


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
