"""Finding and running the upstream example programs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fmha_cli.domain.counterpart import Binaries, Program, Ran
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.toolchain.process import TimeLimits, run_group

_KEPT = 200_000
"""Bytes that are kept from each end of a stream, because a mismatch can print many lines."""


def find_binaries(folder: Path, names: Mapping[Program, str]) -> Binaries:
    """Find the programs in a folder or in its ``bin``.

    Args:
        names: the file name of each program.

    Raises:
        EnvironmentProblem: Y003, no such folder.
    """
    if not os.path.isdir(folder):
        what = f"--upstream-bin {folder}: no such folder"
        help = f"a folder with {' and '.join(names.values())}; or --build-upstream"
        raise EnvironmentProblem(what, code="Y003", where="--upstream-bin", help=help)
    found: dict[Program, Path] = {}
    missing: dict[Program, str] = {}
    for program, name in names.items():
        places = [folder / name, folder / "bin" / name]
        here = next((path for path in places if path.is_file()), None)
        if here is None:
            missing[program] = f"{name} is not in {folder}"
        elif not os.access(here, os.X_OK):
            missing[program] = f"{here} is not executable"
        else:
            found[program] = here.resolve()
    return Binaries(found, missing)


def run_program(path: Path, argv: tuple[str, ...], env: Mapping[str, str], timeout: float) -> Ran:
    """Run a program in a temporary folder. No process that it started is left when this returns.

    Raises:
        EnvironmentProblem: Y004, it cannot be started.
        Interrupted: Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="fmha-parity-") as folder:
        scratch, limits = Path(folder), TimeLimits(timeout)
        with (scratch / "stdout").open("w+b") as out, (scratch / "stderr").open("w+b") as err:
            try:
                ended = run_group([str(path), *argv], cwd=scratch, env=env, output=out, errors=err, limits=limits)
            except OSError as fault:
                what = f"{path} cannot be started"
                raise EnvironmentProblem(what, code="Y004", where="--upstream-bin", why=str(fault)) from fault
        said = [_text_of(scratch / name) for name in ("stdout", "stderr")]
    return Ran((str(path), *argv), ended.returncode, said[0], said[1], ended.timed_out, ended.seconds)


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    if len(data) > 2 * _KEPT:
        data = data[:_KEPT] + b"\n...\n" + data[-_KEPT:]
    return data.decode("utf-8", "replace")
