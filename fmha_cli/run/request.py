"""``Request``: the options of a command line, without its problems, and the kernels that they name (``K@DIR``). ``Context``: the common
part of all rows of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.arch import arch_of
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import Arithmetic
from fmha_cli.domain.installation import Sourced
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.tensors import ROTARY_TABLES

if TYPE_CHECKING:
    from fmha_cli.run.job import Emulation
    from fmha_cli.run.supervisor import Supervisor


TENSOR_OF_FLAG: Mapping[str, str] = {
    flag: "bias" if flag == "bias_file" else flag
    for flag in (
        *("q", "k", "v", "do", "bias_file", "alibi_slopes", "sink_logits", "block_table"),
        *("q_descale", "k_descale", "v_descale", "k_new", "v_new", *ROTARY_TABLES),
    )
}
"""Flags that name tensor files (contract, section 3) -> the project-wide name of the tensor."""


class Command(StrEnum):
    """The commands whose rows run."""

    RUN = "run"
    VALIDATE = "validate"
    BENCH = "bench"


class CheckedCalls(StrEnum):
    """Which calls of a session are judged as ``fmha run`` judges."""

    FIRST = "first"
    """Each kernel's calls until one is good. Of the later ones: that the launch ended, at the first try, and that an emulated device
    found nothing. Not their numbers, and no guards around the tensors."""
    ALWAYS = "always"
    """All."""
    NEVER = "never"
    """None: of each call only that a launch ended."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of these commands (contract, sections 1 and 5).

    Attributes:
        argv: the command line, for journals and repro lines.
        backend: a name, ``auto``, or backends to compare: names with commas, or ``all``.
        files: flag key -> FILE[:KEY], or the word that asks for a filled tensor.
        fills: fills to check with; ``run`` and ``bench`` use only the first.
        threads: CPU threads of a kernel; 0 = all allowed.
        jobs: compilers at once; 0 = all allowed.
        timeout: seconds for one row in the worker.
        cache: ``hot``, ``cold`` or ``both``.
        ab: two kernels whose timed launches are interleaved.
        select: ``tuned``: what ``fmha tune`` remembered goes before the backends' own choice; ``default``: it does not.
        peak: ``measured`` or ``spec``.
        probe: measure the properties of the processor that kernels need and no fact has, once per machine.
        budget_s: time for the samples of one row of ``bench``, once there are enough of them.
        max_time_s: the longest time for the samples of one row, however few they are.
        processes: fresh workers that share the samples of one row of ``bench``; 1: the worker that checked it takes them.
        oracle_s: seconds that the reference of one problem and fill may take, infinite for all rows; larger problems
            are checked on a sample of their rows.
        label: the user's name for the run, kept in every record.
        options: the backends' own options that the user gave, by flag name (``ck-home``, ``ck-rev``).
        emu_seed, emu_turn, emu_threads, emu_checks, emu_careful, emu_arith: as in ``EmulatorOptions``; 0 threads = all allowed.
    """

    command: Command = Command.RUN
    argv: tuple[str, ...] = ()
    backend: str = "auto"
    arch: str | None = None
    device: str | None = None
    kernel: str | None = None
    select: str = "tuned"
    files: Mapping[str, str] = field(default_factory=dict)
    out: str | None = None
    fills: tuple[str, ...] = ("normal",)
    fill_seed: int = 0
    check: bool = True
    threads: int = 0
    timeout: float = 600.0
    jobs: int = 0
    offline: bool = False
    dry_run: bool = False
    all_kernels: bool = False
    cache: str = "hot"
    ab: tuple[str, str] | None = None
    flops_dense: bool = False
    peak: str = "measured"
    probe: bool = True
    repeats: int = 2
    budget_s: float = 2.0
    max_time_s: float = 30.0
    processes: int = 1
    oracle_s: float = 10.0
    save_failures: str | None = None
    baseline: str | None = None
    journal: str | None = None
    resume: str | None = None
    label: str | None = None
    cache_root: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    emu_seed: int = 0
    emu_turn: int = 0
    emu_threads: int = 0
    emu_checks: bool = True
    emu_careful: bool = False
    emu_arith: Arithmetic = Arithmetic.DOCUMENT

    def __post_init__(self) -> None:
        """Raises UsageError: E002, more threads than the process may use cores: it would only wait for itself."""
        cores = usable_cores()
        if self.threads > cores:
            what = f"--threads {self.threads}: this process may use {cores} {'core' if cores == 1 else 'cores'}"
            help = f"--threads {cores} or less; 0 = all"
            raise UsageError(what, code="E002", where="--threads", help=help)

    @property
    def wanted(self) -> Wanted:
        arch = None if self.arch is None else arch_of(self.arch)
        return Wanted(backend=self.backend, arch=arch, device=self.device, kernel=self.kernel)


@dataclass(frozen=True, kw_only=True)
class Context:
    """The state that all rows of one run share.

    Attributes:
        request: the user's request.
        registry: the backends that may be used.
        supervisor: whose worker runs every row.
        building: how kernels and peak loops are built.
        emulation: of the emulated device that all rows run on; None for other devices.
        voice: hears what is said during long work.
        dbias_shape: the shape in which dBias is handed out: that of a given bias, of whatever form; None: the tensor's own.
    """

    request: Request
    registry: Registry
    supervisor: Supervisor
    building: BuildContext
    emulation: Emulation | None = None
    voice: Voice = SILENT
    dbias_shape: tuple[int, ...] | None = None

    @property
    def threads(self) -> int:
        """Threads for kernels on a CPU."""
        return self.request.threads or usable_cores()


@dataclass(frozen=True)
class NamedKernel:
    """A kernel as the user names it, and the user's tree of its sources; without one, it is built from the sources that
    the options or ``fmha`` choose.
    """

    kernel: str
    home: str | None = None

    @staticmethod
    def parse(text: str, where: str) -> NamedKernel:
        """The side of ``K`` or ``K@DIR``. No name of a kernel holds an ``@``, but a folder may.

        Raises:
            UsageError: E002, a part is missing.
        """
        kernel, at, home = text.partition("@")
        if not kernel or (at and not home):
            help = "K@DIR: a kernel, and the tree of sources to build it from"
            raise UsageError(f"{where} {text}: a part is missing", code="E002", where=where, help=help)
        return NamedKernel(kernel, home or None)


@dataclass(frozen=True)
class Order:
    """One kernel to build, from the tree ``home`` if there is one."""

    stage: Stage
    home: str | None = None

    @property
    def key(self) -> str:
        """Its name among the kernels of a run: the digest, or ``DIGEST@DIR``."""
        return self.stage.kernel.digest if self.home is None else f"{self.stage.kernel.digest}@{self.home}"


def home_option(registry: Registry, backend: str, home: str, where: str) -> str:
    """The option of a backend that names the user's tree.

    Raises:
        UsageError: E016, its sources cannot be replaced.
    """
    found = registry.backend(backend)
    option = found.home_option if isinstance(found, Sourced) else None
    if option is None:
        named = [b.name for b in registry.backends.values() if isinstance(b, Sourced) and b.home_option]
        raise UsageError(
            f"{where} K@{home}: {backend} builds from no sources that could be replaced",
            code="E016",
            where=where,
            help=f"backends whose sources can be: {', '.join(named) or 'none'}",
        )
    return option


def options_at(
    registry: Registry, options: Mapping[str, str], backend: str, home: str | None, where: str = "--ab"
) -> dict[str, str]:
    """The options of a build, with the tree of one side in place of the one for all.

    Raises:
        UsageError: as :func:`home_option`.
    """
    return dict(options) if home is None else {**options, home_option(registry, backend, home, where): home}


def context_at(
    registry: Registry, context: BuildContext, backend: str, home: str | None, where: str = "--ab"
) -> BuildContext:
    """The context in which the kernels of one side are built. Raises as :func:`options_at`."""
    return replace(context, options=options_at(registry, context.options, backend, home, where))
