"""Rules K750-K757: the kernels, and their needs of a problem."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.gpu.arithmetic import SMALLEST_NORMAL, single
from fmha_cli.backends.gpu.devices import UNKNOWN_UNITS
from fmha_cli.backends.gpu.few import Few
from fmha_cli.backends.gpu.index import SmallSituation
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together
from fmha_cli.codegen.aiter_asm.facts import NAME, facts_of, kernels
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import HDIM_RULE, SIGNATURE_RULE_IDS
from fmha_cli.domain.signature import MaskKey, ModeKey
from fmha_cli.domain.signature_hints import positive_scale
from fmha_cli.domain.tensors import shapes_of

BYTES_END = 1 << 32


def is_causal(p: Problem) -> bool | None:
    """Whether upstream takes the causal kernel, after it has dropped what hides nothing; None for a mask that no kernel has."""
    rows, keys = max(p.query_lengths(), default=0), max(p.key_lengths(), default=0)
    left, right = (None if bound is None or bound >= keys else bound for bound in (p.mask.left, p.mask.right))
    if left is None and (right is None or (right == 0 and rows == 1 and p.mask.align is Align.BOTTOM_RIGHT)):
        return False
    square = p.mode is Mode.BATCH and rows == keys
    diagonal = left is None and right == 0 and (p.mask.align is Align.BOTTOM_RIGHT or square)
    return True if diagonal else None


def units_of(device: DeviceFacts, arch: str) -> int:
    """The compute units of a device; those of the architecture's largest product where it is not known."""
    known = device.id != "none" and device.units > UNKNOWN_UNITS
    return device.units if known else int(load_arch(arch).fact("compute_units"))


def _findings(s: SmallSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p, want = s.problem, kernel.signature
    misfit = (p.hdim, p.hdim_v) != (want.hdim, want.hdim_v)
    yield "K752", refuse_if(misfit, hdim=p.hdim, hdim_v=p.hdim_v, want=want.hdim, want_v=want.hdim_v)
    have, causal = want.mask is MaskKey.CAUSAL, is_causal(p)
    why = "no kernel has it" if causal is None else f"the kernel {'is' if have else 'is not'} causal"
    wrong = causal is None or causal is not have
    yield "K753", refuse_if(wrong, mask=p.mask.text(), why=why, hint=f"--mask {'causal' if have else 'none'}")
    size, name = max((shape.nbytes, name) for name, shape in shapes_of(p).items())
    yield "K754", refuse_if(size >= BYTES_END, name=name, size=size)
    units, wanted = units_of(s.device, kernel.arch), facts_of(kernel).units
    elsewhere = bool(wanted) and units not in wanted
    yield "K755", refuse_if(elsewhere, units=units, wanted=" or ".join(map(str, wanted)))
    lengths = enumerate(zip(p.query_lengths(), p.key_lengths(), strict=True))
    blind = [(number, rows) for number, (rows, keys) in lengths if rows and not keys] if any(p.key_lengths()) else []
    sequence, rows = blind[0] if blind else (0, 0)
    yield "K756", refuse_if(blind and not have, sequence=sequence, rows=rows)
    yield "K757", refuse_if(single(p.scale) < SMALLEST_NORMAL, scale=p.scale, hint=positive_scale(p))


CONDITIONS = conditions(NAME, together([f"K{number}" for number in range(752, 758)], _findings))
REPLACED = (SIGNATURE_RULE_IDS["mask"], HDIM_RULE.id)
FEW = Few(NAME, lambda arch: kernels(arch.name), ("K750", "K751"), SmallSituation, CONDITIONS, REPLACED)


def is_packed(kernel: KernelSpec) -> bool:
    """Whether the kernel reads where each sequence starts (group mode)."""
    return kernel.signature.mode is ModeKey.GROUP
