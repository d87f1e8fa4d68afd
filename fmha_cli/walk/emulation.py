"""The emulator behind a request: refused where times are asked for, built before the first row runs."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.build.files import as_environment_problem, make_private_dir
from fmha_cli.device import is_emulated, usable_cores
from fmha_cli.emulated import emulated_device
from fmha_cli.emulation import EmulatorOptions
from fmha_cli.errors import UsageError
from fmha_cli.execution.job import Emulation
from fmha_cli.protocols import BuildContext
from fmha_cli.registry import Registry
from fmha_cli.walk.request import Command, Request


def refuse_timing(request: Request) -> None:
    """No times of an emulated device: they would be the emulator's.

    Raises:
        UsageError: Z003, ``fmha bench`` on an emulated device.
    """
    if request.command is Command.BENCH and is_emulated(request.device):
        raise UsageError(
            f"--device {request.device}: an emulated device has no speed to measure",
            code="Z003",
            where="--device",
            why="a time of it would be the emulator's, not the kernel's",
            help="fmha validate judges the kernel there; fmha inspect --executed counts what it executes",
        )


ROOM = "emulators"
"""Below the cache root: a folder for each emulator."""


def _options(request: Request, cache: Path) -> EmulatorOptions:
    with as_environment_problem("keeping what an emulator found"):
        make_private_dir(cache.parent)
        make_private_dir(cache)
    threads = request.emu_threads or usable_cores()
    return EmulatorOptions(
        seed=request.emu_seed,
        turn=request.emu_turn,
        threads=threads,
        checks=request.emu_checks,
        cache=str(cache),
    )


def emulation_of(request: Request, registry: Registry, context: BuildContext) -> Emulation | None:
    """What the jobs of a request need to run on its emulated device, built; None for any other device.

    Raises:
        EnvironmentProblem: Z001, Z002; no compiler; the cache cannot be written. KernelFailure: the emulator does not compile.
    """
    if request.device is None or not is_emulated(request.device):
        return None
    emulator, device = emulated_device(registry, request.device)
    return Emulation(
        entry=registry.emulator_entry(emulator.name),
        name=emulator.name,
        library=emulator.build(device, context),
        options=_options(request, context.cache_root / ROOM / emulator.name),
    )
