"""``Request``: what a command line asked for beside the problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fmha_cli.select import Wanted

FILLS = ("normal", "coded", "ties", "large", "sparse_int")
"""The fills of ``validate``, in the order in which they run."""


class Command(StrEnum):
    """The commands that walk."""

    RUN = "run"
    VALIDATE = "validate"
    BENCH = "bench"


@dataclass(frozen=True, kw_only=True)
class Request:
    """Options of the walking commands (contract, sections 1 and 5).

    Attributes:
        argv: the command line, for journals and repro lines.
        files: flag key -> FILE[:KEY]; what is absent is filled.
        fills: fills to check with; ``run`` and ``bench`` use the first alone.
        threads, jobs: 0 = all allowed; timeout: seconds for one row in the worker.
        cache: ``hot``, ``cold`` or ``both``; ab: two kernels to time in turns.
        peak: ``measured`` or ``spec``.
        budget_s: time for the samples of one row of ``bench``.
        oracle_s: seconds that checking one row may take; larger problems are checked on sampled rows.
        options: what the user set of backends' own options, by flag name (``ck-home``).
        emu_seed, emu_turn, emu_threads, emu_checks: of an emulated device; see ``EmulatorOptions`` (threads 0 = all allowed).
    """

    command: Command = Command.RUN
    argv: tuple[str, ...] = ()
    backend: str = "auto"
    arch: str | None = None
    device: str | None = None
    kernel: str | None = None
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
    repeats: int = 2
    budget_s: float = 2.0
    oracle_s: float = 10.0
    save_failures: str | None = None
    baseline: str | None = None
    journal: str | None = None
    resume: str | None = None
    cache_root: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    emu_seed: int = 0
    emu_turn: int = 0
    emu_threads: int = 0
    emu_checks: bool = True

    @property
    def wanted(self) -> Wanted:
        return Wanted(backend=self.backend, arch=self.arch, device=self.device, kernel=self.kernel)
