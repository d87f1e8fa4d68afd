"""The emulator that a request names. It is built before the first row runs, and refused if times are requested."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.discovery.emulated_devices import emulated_device
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import is_emulated, usable_cores
from fmha_cli.domain.emulation import Arithmetic, ChoosesArithmetic, Emulator, EmulatorOptions
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import Reason
from fmha_cli.run.job import Emulation, Loadable
from fmha_cli.run.request import Command, Request
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir

UNTIMED = Reason(
    "Z003", "an emulated device has no speed: nothing was timed, and the counts of both kernels are compared"
)
"""Why the rows of ``--ab`` have no times on an emulated device."""


def refuse_timing(request: Request) -> None:
    """Refuse to time an emulated device: the times would be the emulator's. Two kernels can be compared by what they
    execute.

    Raises:
        UsageError: Z003, ``fmha bench`` of single kernels on an emulated device.
    """
    if request.command is Command.BENCH and request.ab is None and is_emulated(request.device):
        what = f"--device {request.device}: an emulated device has no speed to measure"
        why = "its times are those of the emulator, not of the kernel"
        help = (
            "fmha validate judges the kernel there; fmha inspect --executed counts what it executes; bench --ab K1 K2 compares "
            "the counts of two"
        )
        raise UsageError(what, code="Z003", where="--device", why=why, help=help)


ROOM = "emulators"
"""Below the cache root: a folder for each emulator."""


def _options(request: Request, cache: Path) -> EmulatorOptions:
    with as_environment_problem("keeping what an emulator found"):
        make_private_dir(cache)
    threads = request.emu_threads or usable_cores()
    return EmulatorOptions(
        seed=request.emu_seed,
        turn=request.emu_turn,
        threads=threads,
        checks=request.emu_checks,
        cache=str(cache),
        arithmetic=request.emu_arith,
    )


def _refuse_arithmetic(emulator: Emulator, device: str, wanted: Arithmetic) -> None:
    has = emulator.arithmetics if isinstance(emulator, ChoosesArithmetic) else (Arithmetic.DOCUMENT,)
    if wanted not in has:
        raise UsageError(
            f"{emulator.name} has no arithmetic {wanted.value}",
            code="Z007",
            where="--emu-arith",
            why=f"on {device} it has {', '.join(has)}",
            help="leave --emu-arith out",
        )


def emulation_of(request: Request, registry: Registry, context: BuildContext) -> Emulation | None:
    """Build the libraries that the jobs of a request need on its emulated device; None for any other device.

    Raises:
        UsageError: Z007, the emulator lacks the arithmetic.
        EnvironmentProblem: Z001, Z002; no compiler; the cache cannot be written.
        KernelFailure: the emulator does not compile.
    """
    if request.device is None or not is_emulated(request.device):
        return None
    emulator, device = emulated_device(registry, request.device)
    _refuse_arithmetic(emulator, device.id, request.emu_arith)
    return Emulation(
        entry=registry.emulator_entry(emulator.name),
        name=emulator.name,
        library=Loadable.of(emulator.build(device, context)),
        options=_options(request, context.cache_root / ROOM / emulator.name),
    )
