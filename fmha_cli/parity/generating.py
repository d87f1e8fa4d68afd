"""Upstream's generator, run for exactly the kernels that a program needs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from fmha_cli.build.process import run_group
from fmha_cli.errors import EnvironmentProblem
from fmha_cli.parity.needs import Needs

RECEIPT = 0
"""All kernels that upstream knows; the list chooses among them."""

_TIMEOUT_S = 300.0
_SUFFIX = re.compile(r"_gfx\d+$")
_DRIVER = "listed_generate.py"


def generate(generator: Path, needs: Needs, out: Path) -> tuple[Path, ...]:
    """The generated files, API files included, in the order of their names.

    Args:
        generator: the folder of upstream's ``generate.py``; nothing is written there.
        out: an empty folder.

    Raises:
        EnvironmentProblem: Y010, the generator fails or does not know a kernel.
    """
    names = out / "kernels.txt"
    # The generator compares names without the architecture that ends the file's.
    names.write_text("".join(f"{name}\n{_SUFFIX.sub('', name)}\n" for name in needs.names), "utf-8")
    env = {**os.environ, "PYTHONPATH": str(generator), "PYTHONDONTWRITEBYTECODE": "1"}
    log = out / "generate.log"
    driver = Path(__file__).with_name(_DRIVER)
    arguments = [str(needs.arch), ",".join(needs.apis), str(RECEIPT), str(names), str(out / "code")]
    (out / "code").mkdir()
    with log.open("wb") as stream:
        command = [sys.executable, "-B", "-P", "-W", "ignore", str(driver), *arguments]
        ended = run_group(command, cwd=out, env=env, output=stream, timeout=_TIMEOUT_S)
    said = log.read_text("utf-8", "replace").strip().splitlines()
    if ended.returncode:
        raise EnvironmentProblem(
            "upstream's generator failed",
            code="Y010",
            where=str(generator),
            why=said[-1] if said else f"exit status {ended.returncode}",
        )
    files = tuple(sorted((out / "code").rglob("*.cpp")))
    missing = sorted(set(needs.names) - {path.stem for path in files})
    if missing:
        raise EnvironmentProblem(
            f"upstream's generator gives no {missing[0]}"
            + (f" and {len(missing) - 1} others" if len(missing) > 1 else ""),
            code="Y010",
            where=str(generator),
            why=f"asked for {needs.arch}, receipt {RECEIPT}",
        )
    return files
