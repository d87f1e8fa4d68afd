"""Finding and running the upstream example programs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.process import run_group
from fmha_cli.errors import EnvironmentProblem
from fmha_cli.parity.case import Program
from fmha_cli.parity.reading import Ran

_KEPT = 200_000
"""Bytes that are kept of the beginning and of the end of each stream: a mismatch can print many lines."""

VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""Variables by which the HIP runtime chooses and numbers devices; the first one that is set counts."""


@dataclass(frozen=True)
class Binaries:
    """Where the programs are; None for one that is missing, with the reason in ``missing``."""

    found: Mapping[Program, Path]
    missing: Mapping[Program, str]


def find_binaries(folder: Path) -> Binaries:
    """The programs of a folder (its ``bin`` included).

    Raises:
        EnvironmentProblem: Y003, no such folder.
    """
    if not folder.is_dir():
        raise EnvironmentProblem(
            f"--upstream-bin {folder}: no such folder",
            code="Y003",
            where="--upstream-bin",
            help=f"a folder with {Program.FWD.binary} and {Program.BWD.binary}; or --build-upstream",
        )
    found: dict[Program, Path] = {}
    missing: dict[Program, str] = {}
    for program in Program:
        places = [folder / program.binary, folder / "bin" / program.binary]
        here = next((path for path in places if path.is_file()), None)
        if here is None:
            missing[program] = f"{program.binary} is not in {folder}"
        elif not os.access(here, os.X_OK):
            missing[program] = f"{here} is not executable"
        else:
            found[program] = here.resolve()
    return Binaries(found, missing)


def environment_for(device: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that is to run on the same device as this tool (``hip:N``)."""
    out = {**environ, "LC_ALL": "C"}
    kind, _, number = (device or "").partition(":")
    if kind != "hip" or not number.isdecimal():
        return out
    name = next((name for name in VISIBLE if environ.get(name)), VISIBLE[0])
    visible = environ[name].split(",") if environ.get(name) else []
    out[VISIBLE[0]] = visible[int(number)].strip() if int(number) < len(visible) else number
    if name != VISIBLE[0]:
        out.pop(name)
    return out


def run_program(path: Path, argv: tuple[str, ...], env: Mapping[str, str], timeout: float) -> Ran:
    """Run a program in a folder of its own; whatever it starts is gone when this returns.

    Raises:
        EnvironmentProblem: Y004, it cannot be started at all.
        Interrupted: Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="fmha-parity-") as folder:
        scratch = Path(folder)
        with (scratch / "stdout").open("w+b") as out, (scratch / "stderr").open("w+b") as err:
            try:
                ended = run_group([str(path), *argv], cwd=scratch, env=env, output=out, errors=err, timeout=timeout)
            except OSError as fault:
                raise EnvironmentProblem(
                    f"{path} cannot be started", code="Y004", where="--upstream-bin", why=str(fault)
                ) from fault
        said = [_text_of(scratch / name) for name in ("stdout", "stderr")]
    return Ran((str(path), *argv), ended.returncode, said[0], said[1], ended.timed_out, ended.seconds)


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    if len(data) > 2 * _KEPT:
        data = data[:_KEPT] + b"\n...\n" + data[-_KEPT:]
    return data.decode("utf-8", "replace")
