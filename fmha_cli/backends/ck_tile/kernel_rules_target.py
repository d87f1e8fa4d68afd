"""Rules that refuse kernels which upstream's generator emits but which cannot be used on their architecture."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.backends.gpu.known_bad import known_bad
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal


def _matrix(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    """A wave's product must consist of matrix instructions that the architecture has."""
    warp = algorithm_of(kernel).warp
    able = [tuple(shape) for shape in arch.fact("matrix_shapes")]
    for m, n, k in zip(warp[0::3], warp[1::3], warp[2::3], strict=True):
        if (m, n) not in able:
            shapes, kind = ", ".join(f"{a}x{b}" for a, b in able), arch.fact("matrix_kind")
            return Refusal(
                f"a wave's product of {m}x{n}x{k} on {arch.name}, which has {kind} of {shapes}", "a CDNA arch"
            )
    return None


def _known(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    found = next((bad for bad in known_bad(NAME) if bad.effect == "refused" and bad.meets(kernel)), None)
    return None if found is None else Refusal(f"known to be bad: {found.what} ({found.link})")


def concerns(rule: KernelRule, arch: ArchSpec, family: Family, revision: str) -> bool:
    """Whether a rule may refuse any kernel of a family: false where no report concerns the family."""
    reports = (bad for bad in known_bad(NAME) if bad.effect == "refused")
    return rule.check is not _known or any(bad.holds_for(arch.name, family, revision) for bad in reports)


TARGET_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K290": _matrix,
        "K291": _known,
    },
)
