"""``KernelRule``: a rule that reads a kernel and its architecture's facts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from fmha_cli.arch import ArchSpec, load_arch
from fmha_cli.backends.ck_tile.condition import algorithm_of
from fmha_cli.backends.ck_tile.revisions import arch_class, revisions
from fmha_cli.device import DeviceFacts
from fmha_cli.errors import FmhaError
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule, Severity

EVERY = tuple(Family)
BACKWARD_ALL = tuple(f for f in Family if f.value.startswith("bwd"))
FORWARD_ALL = tuple(f for f in Family if f not in BACKWARD_ALL)


class Stage(StrEnum):
    """Who refuses by the rule."""

    GENERATOR = "generator"
    """Upstream's example generator, inside its loops: the enumerator prunes with it."""
    TABLE = "table"
    """The tables themselves, or upstream's other rule sets: what is enumerated meets it already."""
    TARGET = "target"
    """Nobody upstream: the generator emits the kernel, and it cannot be used on the architecture."""


@dataclass(frozen=True)
class Refusal:
    """What a rule found: text with the values, and the change that would help."""

    text: str
    hint: str | None = None


Check = Callable[[KernelSpec, ArchSpec], Refusal | None]


@dataclass(frozen=True)
class KernelRule:
    """A rule over kernels.

    Attributes:
        check: None when the kernel meets the rule. Called for kernels of ``families`` alone.
        reads: the fields of signature and algorithm that ``check`` reads; besides them family, arch and its facts.
        number: upstream's number of the rule (``11``, ``T7``, ``X2``), empty where it has none.
    """

    id: str
    text: str
    check: Check
    reads: tuple[str, ...]
    families: tuple[Family, ...]
    stage: Stage
    help: str
    source: str
    number: str = ""
    severity: Severity = Severity.KIND

    def against(self, kernel: KernelSpec, arch: ArchSpec) -> Reason | None:
        """The Reason against a kernel, None where it meets the rule or is too malformed to be asked (K200, K214)."""
        return None if self.number not in FORM and not well_formed(kernel) else self.found(kernel, arch)

    def found(self, kernel: KernelSpec, arch: ArchSpec) -> Reason | None:
        """As :meth:`against`, for a kernel that is well formed."""
        if kernel.family not in self.families:
            return None
        found = self.check(kernel, arch)
        return None if found is None else Reason(self.id, found.text, found.hint, self.severity)

    def rule(self) -> Rule:
        """The rule as one of the tool's one table; problem and device are not read."""

        def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
            arch = arch_facts(kernel.arch)
            if arch is None:
                return no_arch(kernel) if self.id == NO_ARCH else None
            return self.against(kernel, arch)

        source = f"{self.source} ({self.number})" if self.number else self.source
        return Rule(self.id, self.text, check, self.help, source)


LENGTHS: Mapping[Family, tuple[int, int, int]] = MappingProxyType(
    {
        **dict.fromkeys((Family.FWD, Family.FWD_SPLITKV, Family.FWD_PAGEDKV, Family.BATCH_PREFILL), (6, 6, 6)),
        Family.FWD_SPLITKV_COMBINE: (1, 0, 0),
        Family.FWD_APPENDKV: (4, 0, 0),
        Family.BWD_DOT_DO_O: (1, 0, 0),
        Family.BWD_DQ_DK_DV: (9, 9, 6),
        Family.BWD_CONVERT_DQ: (2, 0, 0),
    }
)
"""How many numbers ``tile``, ``waves`` and ``warp`` have."""
FORM = ("form", "14", "17")
"""Numbers of the rules that look at the form alone, before any other may index a tile."""


def well_formed(kernel: KernelSpec) -> bool:
    """Whether a kernel names a known revision and its tile, waves and warp have the numbers that others read."""
    a = algorithm_of(kernel)
    lengths = (len(a.tile), len(a.waves), len(a.warp))
    known = any(r.name == a.rev for r in revisions())
    return known and lengths == LENGTHS[kernel.family] and min(counted(kernel)) > 0


def counted(kernel: KernelSpec) -> tuple[int, ...]:
    """The tile, wave and warp numbers that count something: all but the keys of a convert kernel's partial dQ."""
    a = algorithm_of(kernel)
    tile = a.tile[:1] if kernel.family is Family.BWD_CONVERT_DQ else a.tile
    return (*tile, *a.waves, *a.warp)


@cache
def arch_facts(name: str) -> ArchSpec | None:
    """The facts of an AMD architecture, None where there are none."""
    try:
        arch = load_arch(name)
    except FmhaError:
        return None
    return arch if arch.vendor == "amd" else None


NO_ARCH = "K201"
"""The rule that refuses an architecture."""


def no_arch(kernel: KernelSpec) -> Reason:
    """The Reason against a kernel for no AMD architecture of which facts are known."""
    return Reason(NO_ARCH, f"{kernel.arch} is no known AMD architecture", "fmha archs", Severity.PLACE)


@cache
def _class_name(arch: str, family: Family, revision: str) -> str:
    facts = arch_facts(arch)
    found = arch_class(facts, family, revision) if facts else None
    return found.name if found else ""


def class_of(kernel: KernelSpec) -> str:
    """The name of the class under which upstream files a kernel's architecture, empty where it has none."""
    return _class_name(kernel.arch, kernel.family, algorithm_of(kernel).rev)


def cdna_class(kernel: KernelSpec) -> bool:
    """Whether upstream's gfx9 conditions hold for a kernel (``factory.arch.name.startswith("gfx9")``)."""
    return class_of(kernel).startswith("gfx9")


OPS = "example/ck_tile/01_fmha/codegen/ops"


def generator_rule(
    id: str, text: str, check: Check, reads: str, families: tuple[Family, ...], help: str, file: str, number: str = ""
) -> KernelRule:
    """A rule by which upstream's example generator prunes its loops; ``file``: where, below ``OPS``."""
    source = f"{OPS}/{file}"
    return KernelRule(id, text, check, tuple(reads.split()), families, Stage.GENERATOR, help, source, number)
