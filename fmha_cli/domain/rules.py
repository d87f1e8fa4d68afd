"""``Rule``, ``Refusal`` and ``Reason``: a rule's check finds a refusal, from which the rule makes the Reason.

Id ranges: K001-K099 core, K100-K199 cpu, K200-K399 ck_tile, K400-K499 flash_attn, K500-K599 mem_efficient, K600-K649 cudnn_oss,
K650-K749 flash_attn_3, K750-K799 aiter_asm, K900-K999 plugins (from K900 on fmha-torch, K930 fmha-onnxruntime, K945 fmha-openvino, K953 fmha-mlx,
K960 fmha-triton, K975 fmha-jax, K982 fmha-ggml).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Annotated, ClassVar

from fmha_cli.domain.codec import extras, members_of, once
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.features import ROTARY_BASE, CacheKind, Direction
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import BOUNDED
from fmha_cli.domain.members import Hidden
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import ComparedBy, Signature
from fmha_cli.domain.signature_hints import with_hdim, with_signature


class Severity(IntEnum):
    """How far a refused kernel is from fitting; ``explain`` ranks near misses by it, smallest first."""

    CHOICE = 0
    """Nothing would have to change: runnable, not recommended. A kernel that only such reasons refuse runs
    when ``--kernel`` names it, and its row keeps the reasons."""
    OPTION = 1
    """A run-time option would have to change (dropout off, LSE off)."""
    SHAPE = 2
    """A size would have to change (pad hdim 72 to 80)."""
    KIND = 3
    """The kind of problem would have to change (dtype, mask kind, direction)."""
    PLACE = 4
    """Another architecture, device or backend would be needed."""


@dataclass(frozen=True)
class Reason:
    """Why a kernel does not serve a problem: rule id, text with the values, and the change that would help.

    A hint that is a change of flags is written as flags (``domain.hints``), and ``explain`` can try it.
    """

    id: Annotated[str, "rule id; fmha explain ID prints its page"]
    text: str
    hint: str | None = None
    severity: Annotated[Severity, Hidden()] = Severity.KIND
    json_kept: ClassVar[bool] = True


@dataclass(frozen=True)
class Refusal:
    """The finding of a check: a text with the values, and the change that would help.

    Attributes:
        severity: set if it depends on the values; None = the severity of the rule.
    """

    text: str
    hint: str | None = None
    severity: Severity | None = None

    def by(self, id: str, severity: Severity) -> Reason:
        """The Reason that the rule which found this refusal gives."""
        return Reason(id, self.text, self.hint, severity if self.severity is None else self.severity)


Check = Callable[[Problem, KernelSpec, DeviceFacts], Refusal | None]


@dataclass(frozen=True)
class Rule:
    """One rule. ``check`` returns None if the kernel may serve the problem, else the refusal.

    ``text`` states the rule in general (``fmha explain ID`` prints it with ``help``).

    Attributes:
        field: of the signature, if the check compares this field alone, and refuses nothing where kernel and problem have the same value.
        reads: paths of all that the check of a rule of the core reads of a kernel; ``signature.mask`` is one.
    """

    id: str
    text: str
    check: Check
    help: str = ""
    source: str = ""
    severity: Severity = Severity.KIND
    field: str = ""
    reads: tuple[str, ...] = ()

    def against(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
        """The Reason why the kernel does not serve the problem on the device; None if it may."""
        refusal = self.check(problem, kernel, device)
        return None if refusal is None else refusal.by(self.id, self.severity)


def refuses_nothing(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    """The check of a rule that only orders kernels, or that applies before there is a kernel to check."""
    return None


def reasons_against(rules: Iterable[Rule], problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> list[Reason]:
    """All reasons, in the order of the table, not only the first."""
    wanted = once(problem, "_signature", Signature.of)  # a problem meets thousands of kernels
    other = kernel.signature.other_fields(wanted)
    found = (rule.against(problem, kernel, device) for rule in rules if not rule.field or rule.field in other)
    return [reason for reason in found if reason is not None]


def _signature_check(field: str) -> Check:
    def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
        wanted = once(problem, "_signature", Signature.of)  # for every rule and kernel
        if kernel.signature.admits(field, wanted) or (field == "dtype_out" and _follows(problem, kernel)):
            return None
        have, want = str(getattr(kernel.signature, field)), str(getattr(wanted, field))
        text = f"{field} {want} is not what the kernel is compiled for ({field} {have})"
        return Refusal(text, with_signature(problem, field, have))

    return check


def _unbounded_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    return None if problem.mask.kind in BOUNDED else _signature_check("mask")(problem, kernel, device)


def _follows(problem: Problem, kernel: KernelSpec) -> bool:
    """Whether both output types are the defaults of different input types; then K001 covers the difference."""
    have = kernel.signature
    default = have.dtype_out is have.dtype.default_output and problem.dtype_out is problem.dtype.default_output
    return default and have.dtype is not problem.dtype


_SIGNATURE_ROWS = tuple(
    (member.name, note.rule, Severity[note.severity])
    for member in members_of(Signature)
    for note in extras(member.hint)
    if isinstance(note, ComparedBy)
)
"""Field of the signature, id of its rule, severity."""

SIGNATURE_RULE_IDS = {field: id for field, id, _ in _SIGNATURE_ROWS}


def _hdim_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    sizes = (("hdim", problem.hdim, kernel.signature.hdim), ("hdim-v", problem.hdim_v, kernel.signature.hdim_v))
    over = [(name, want, have) for name, want, have in sizes if want > have]
    if not over:
        return None
    name, want, have = over[0]
    text = f"{name} {want} is not supported by {kernel.backend} on {kernel.arch}: the kernel holds at most {have}"
    return Refusal(text, with_hdim(problem, have, name, " or less"))


def _arch_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if kernel.arch in device.archs:
        return None
    text = f"device {device.id} does not accept {kernel.arch} kernels (it accepts {', '.join(device.archs)})"
    return Refusal(text, f"--arch {device.archs[0]}" if device.archs else None)


def _direction_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    have = Direction.BWD if kernel.family.backward else Direction.FWD
    if problem.direction is have:
        return None
    text = f"direction {problem.direction.value} is not what a {kernel.family.value} kernel computes"
    cached = problem.kv_cache.kind is not CacheKind.NONE  # a cache has no gradients, so such a problem is impossible
    return Refusal(text, None if cached and have.backward else f"--direction {have.value}")


def _leftpad_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if problem.cache_leftpad is None:
        return None
    rows = max(problem.cache_leftpad)
    text = f"cache-leftpad {rows}: {kernel.backend} reads a cache from its first row, and cannot skip padding"
    return Refusal(text, "--cache-leftpad 0")


def _own_v_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if not problem.v_in_k:
        return None
    text = f"mla-rope {problem.mla_rope}: {kernel.backend} reads V from a tensor of its own, not from the columns of K"
    return Refusal(text, f"--hdim-v {problem.hdim_v} instead of --mla-rope")


def _angles_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if problem.rotary_cos:
        text = f"rotary tables: {kernel.backend} computes the angles itself"
        return Refusal(text, "drop --rotary-cos and drop --rotary-sin")
    if problem.rotary_base == ROTARY_BASE:
        return None
    text = f"rotary-base {problem.rotary_base:g}: the angles of {kernel.backend} have base {ROTARY_BASE:g}"
    return Refusal(text, "drop --rotary-base")


def _cache_item_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if problem.cache_batch_idx is None:
        return None
    text = f"cache-batch-idx: {kernel.backend} reads row b of the cache for sequence b"
    return Refusal(text, "drop --cache-batch-idx")


SIGNATURE_RULES: tuple[Rule, ...] = tuple(
    Rule(
        id,
        f"the kernel's signature admits the problem's {field}",
        _signature_check(field),
        f"A kernel is compiled for one {field}, or takes any at run time. Kernel and problem must agree.",
        "fmha_cli/domain/signature.py Signature.misfits",
        severity,
        field,
        (f"signature.{field}", *(["signature.dtype"] if field == "dtype_out" else [])),  # its default follows dtype
    )
    for field, id, severity in _SIGNATURE_ROWS
)

LEFTPAD_RULE = Rule(
    "K026",
    "the keys of a linear cache start at its first row",
    _leftpad_check,
    "Left padding is a run-time number that no signature holds. A backend whose kernels start behind it leaves this "
    "rule out of its table; every other one refuses.",
    "Dao-AILab/flash-attention csrc/flash_attn/src/block_info.h BlockInfo::leftpad_k",
    Severity.OPTION,
)
OWN_V_RULE = Rule(
    "K029",
    "V is a tensor of its own",
    _own_v_check,
    "With --mla-rope, V is a view of K's first columns, and dK holds the sums of both. Like left padding it is in no signature. "
    "A backend that passes V as a view leaves this rule out of its table; every other one refuses.",
    "DeepSeek-AI, DeepSeek-V2 (2024), section 2.1: one cache row holds the latent vector and the rotary key",
)
ANGLES_RULE = Rule(
    "K030",
    "rotary angles have base 10000",
    _angles_check,
    "Base and tables are run-time values that no signature holds. A backend that takes them leaves this rule out of its table; "
    "every other one refuses.",
    "Dao-AILab/flash-attention flash_attn/flash_attn_interface.py flash_attn_with_kvcache: rotary_cos, rotary_sin",
    Severity.OPTION,
)
CACHE_ITEM_RULE = Rule(
    "K031",
    "sequence b has row b of a linear cache",
    _cache_item_check,
    "The index is a run-time array that no signature holds. A backend that takes it leaves this rule out of its table; every "
    "other one refuses.",
    "Dao-AILab/flash-attention flash_attn/flash_attn_interface.py flash_attn_with_kvcache: cache_batch_idx",
    Severity.OPTION,
)
HDIM_RULE = Rule(
    "K012",
    "the head dims fit the kernel",
    _hdim_check,
    "Head dims up to the kernel's own are served by padding; larger ones need another kernel.",
    "fmha_cli/domain/signature.py Signature",
    Severity.SHAPE,
    reads=("signature.hdim", "signature.hdim_v", "arch"),
)
ARCH_RULE = Rule(
    "K021",
    "the device accepts the kernel's architecture",
    _arch_check,
    "A device accepts a list of architectures; a kernel built for another one does not load.",
    "fmha_cli/domain/device.py DeviceFacts.archs",
    Severity.PLACE,
    reads=("arch",),
)
DIRECTION_RULE = Rule(
    "K025",
    "the kernel computes the requested direction",
    _direction_check,
    "Forward and backward are different kernels; a backend without the wanted one refuses the problem. Both directions at "
    "once take a kernel of each: a backend that plans them together offers the backward kernel.",
    "fmha_cli/domain/kernel.py Family, fmha_cli/domain/passes.py",
    reads=("family",),
)

_RUN_TIME = (LEFTPAD_RULE, OWN_V_RULE, ANGLES_RULE, CACHE_ITEM_RULE)  # about values that no signature holds
CORE_RULES: tuple[Rule, ...] = (*SIGNATURE_RULES, HDIM_RULE, ARCH_RULE, DIRECTION_RULE, *_RUN_TIME)
"""Rules that hold for every backend; a backend adds its own."""


def core_rules(*served: str) -> tuple[Rule, ...]:
    """The core's rules without those with the given ids, because the kernels serve what these refuse, or the backend has rules for it.

    Every other rule refuses, also one that the core gets later. K004 still refuses masks that two bounds cannot express.
    """
    return tuple(
        replace(rule, check=_unbounded_check) if rule.field == "mask" and rule.id in served else rule
        for rule in CORE_RULES
        if rule.id not in served or rule.field == "mask"
    )


FIRST_PLUGIN_RULE = 900
"""No rule of this tool has this number or a higher one."""

LEFTPAD_CORE_RULES = core_rules(LEFTPAD_RULE.id)
"""The core rules of a backend whose kernels can start behind left padding."""


def unbuildable(kernel: KernelSpec, reasons: Sequence[Reason]) -> UnsupportedError:
    """The error for a kernel that cannot exist. Its headline is the first reason; all reasons follow."""
    first = reasons[0]
    return UnsupportedError(
        f"{kernel.family.value} for {kernel.arch} cannot be built: {first.text}",
        code=first.id,
        where=kernel.name,
        why="; ".join(f"{reason.id} {reason.text}" for reason in reasons),
        help=first.hint,
    )


def is_of_a_plugin(id: str) -> bool:
    """Whether a rule's id is one of the ids that this tool leaves to plugins."""
    return id[1:].isdigit() and int(id[1:]) >= FIRST_PLUGIN_RULE


def duplicate_ids(tables: Sequence[Sequence[Rule]]) -> list[str]:
    """Rule ids that name two different rules; the registry refuses them."""
    seen: dict[str, Rule] = {}
    twice = []
    for table in tables:
        for rule in table:
            if seen.setdefault(rule.id, rule).text != rule.text:
                twice += [rule.id]
    return twice
