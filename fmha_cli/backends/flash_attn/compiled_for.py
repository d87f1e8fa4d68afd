"""Rules K460-K466: what a kernel is compiled for, where upstream's view of a feature differs from the problem's.

The core's signature rules compare the other features (``COMPARED``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from fmha_cli.backends.flash_attn.citations import API, SRC
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.gpu.conditions import FORWARD, Condition, limit
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import SIGNATURE_RULE_IDS, SIGNATURE_RULES, Refusal, Rule, Severity
from fmha_cli.domain.signature import BiasKey, MaskKey, Need

COMPARED = ("softcap", "dropout", "lse", "gqa", "append", "rotary", "deterministic")
"""Signature fields that mean the same to upstream as to the problem. The core's rules compare them."""
COMPARED_RULES: tuple[Rule, ...] = tuple(
    rule for rule in SIGNATURE_RULES if rule.id in {SIGNATURE_RULE_IDS[field] for field in COMPARED}
)


def _mask(s: Situation, kernel: KernelSpec) -> Refusal | None:
    want, have = s.mask_key, kernel.signature.mask
    if s.given is None or want is have:
        return None
    why = "" if want.value == s.problem.mask.kind.value else f", which mask {s.problem.mask.text()} comes to"
    text = f"mask {want.value}{why} is not what the kernel is compiled for (mask {have.value})"
    return Refusal(text, f"--mask {'window:L,R' if have is MaskKey.WINDOW else have.value}")


def _alibi(s: Situation, kernel: KernelSpec) -> Refusal | None:
    want = s.problem.alibi is not Alibi.NONE
    if want == (kernel.signature.bias is BiasKey.ALIBI):
        return None
    text = "the kernel is compiled without ALiBi" if want else "the kernel is compiled for ALiBi"
    return Refusal(text, "--bias none" if want else "--alibi")


def _split(s: Situation, kernel: KernelSpec) -> Refusal | None:
    asked, count = s.problem.splits, s.splits.count
    if kernel.signature.split is Need.YES:
        if count > 1:
            return None
        return Refusal(f"one split ({s.splits.why}): nothing to combine", "--splits 2")
    if asked <= 1:
        return None
    return Refusal(f"splits {asked}: the kernel does not split keys", "--splits 1")


def _even_lengths(s: Situation, kernel: KernelSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    rows, keys = a.tile
    if not a.even_mn or s.fills_tiles(rows, keys):
        return None
    if s.packed_q or s.key_lengths.value != "common":
        text = "the kernel takes one length for all sequences from its parameters; here each has its own"
    else:
        text = f"{s.seqlen_q} rows and {s.seqlen_k} keys are not multiples of the kernel's tile, {rows} by {keys}"
    return Refusal(text, "the same kernel with even_mn=no")


def _even_hdim(s: Situation, kernel: KernelSpec) -> Refusal | None:
    if not algorithm_of(kernel).even_k or s.problem.hdim == kernel.signature.hdim or s.bucket is None:
        return None
    text = f"hdim {s.problem.hdim}: the kernel reads {kernel.signature.hdim} columns of every row"
    return Refusal(text, "the same kernel with even_k=no")


def _signed(*names: str) -> Callable[[KernelSpec], Hashable]:
    def reads(kernel: KernelSpec) -> Hashable:
        return tuple(getattr(kernel.signature, name) for name in names)

    return reads


def _evenness(kernel: KernelSpec) -> Hashable:
    a = algorithm_of(kernel)
    return kernel.signature.hdim, a.tile, a.even_mn


FIT: tuple[Condition[Situation], ...] = (
    limit(
        "K460",
        "the kernel is of the head dim's bucket",
        lambda s, k: s.bucket not in (None, k.signature.hdim),
        lambda s, k: (
            f"hdim {s.problem.hdim} is for the kernels of head dim {s.bucket}, this one has {k.signature.hdim}"
        ),
        lambda s, k: f"--hdim {k.signature.hdim}",
        "A head dim is served by the kernels of the next of 32, 64, 96, 128, 192 and 256. Scratch tensors have rows of "
        "that length.",
        f"{SRC}/static_switch.h HEADDIM_SWITCH",
        reads=_signed("hdim"),
        severity=Severity.SHAPE,
    ),
    Condition(
        "K461",
        "the kernel is compiled for the mask that reaches it",
        _mask,
        "Bounds past every key are dropped, causal over one query row too; what is left is nothing, causal, or a "
        "window, whose sizes are run-time numbers.",
        f"{API} mha_fwd, set_params_fprop; {SRC}/static_switch.h LOCAL_SWITCH",
        reads=_signed("mask"),
    ),
    Condition(
        "K462",
        "the kernel is compiled with ALiBi, or without it, as asked for",
        _alibi,
        "Slopes are run-time numbers.",
        f"{SRC}/static_switch.h ALIBI_SWITCH",
        reads=_signed("bias"),
    ),
    Condition(
        "K463",
        "a kernel that splits has keys to split, one that does not need not",
        _split,
        "With --splits auto upstream's heuristic decides, and kernels that do not split are offered behind its choice.",
        f"{API} run_mha_fwd",
        families=FORWARD,
        reads=_signed("split"),
        severity=Severity.OPTION,
    ),
    limit(
        "K464",
        "pages need the split-KV kernel",
        lambda s, k: s.problem.paged,
        lambda s, k: f"--kv-cache {s.problem.kv_cache.text()}: the plain forward kernel reads no block table",
        "--kv-cache linear",
        "Only split-KV kernels read block tables, and append.",
        f"{API} mha_fwd_kvcache: Only split kernel supports appending to KV cache",
        families=(Family.FWD,),
    ),
    Condition(
        "K465",
        "kernels for even lengths get even lengths",
        _even_lengths,
        "Is_even_MN leaves out every comparison with a length.",
        f"{SRC}/flash_fwd_launch_template.h run_flash_fwd: is_even_MN",
        reads=_evenness,
        severity=Severity.SHAPE,
    ),
    Condition(
        "K466",
        "kernels for even head dims get their own",
        _even_hdim,
        "Is_even_K leaves out every comparison with the head dim.",
        f"{SRC}/flash_fwd_launch_template.h run_flash_fwd: is_even_K",
        reads=lambda kernel: (kernel.signature.hdim, algorithm_of(kernel).even_k),
        severity=Severity.SHAPE,
    ),
)
"""Conditions that match a problem with what a kernel is compiled for."""
