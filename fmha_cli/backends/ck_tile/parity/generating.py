"""Running upstream's generator for exactly the kernels that one program needs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.counterpart import Needs, Program
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family
from fmha_cli.toolchain.process import TimeLimits, run_group

APIS: Mapping[Family, str] = {
    Family.FWD: "fwd",
    Family.FWD_SPLITKV: "fwd_splitkv",
    Family.FWD_SPLITKV_COMBINE: "fwd_splitkv",
    Family.FWD_PAGEDKV: "pagedkv_prefill",
    Family.FWD_APPENDKV: "fwd_appendkv",
    Family.BWD_DOT_DO_O: "bwd",
    Family.BWD_DQ_DK_DV: "bwd",
    Family.BWD_CONVERT_DQ: "bwd",
}
"""Family -> the name of its API in upstream's generator (``generate.py --api``)."""

RECEIPT = 0
"""The receipt with every kernel of upstream; the list of names chooses among them."""

_TIMEOUT_S = 300.0
_SUFFIX = re.compile(r"_gfx\d+$")
_DRIVER = "listed_generate.py"
_DRAWS = "_dropout_wg16_"
_DRAWS_AND_STORES = "_dropout_wg16_storerandval_"


@dataclass(frozen=True)
class Listed:
    """The kernels and APIs that upstream's generator makes for one program.

    Attributes:
        names: upstream's file stems of the kernels, in the order in which cases need them.
        apis: upstream's names of the APIs, including the ones that the program always needs.
        arch: the architecture; None if no case needs a kernel.
    """

    program: Program
    names: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    arch: str | None = None


def list_needed(needs: Needs) -> Listed:
    """The names and APIs to ask upstream's generator for."""
    names = dict.fromkeys(variant for name, _ in needs.kernels for variant in _variants(name))
    apis = {APIS[family] for _, family in needs.kernels}
    return Listed(needs.program, tuple(names), _add_required(needs.program, apis), needs.arch)


def _variants(name: str) -> tuple[str, ...]:
    """The kernels behind one name. A program runs a backward kernel with dropout in two variants: one that stores the
    numbers it drew, for validation (``fmha_bwd_runner.hpp``, ``s_randval``), and one that does not, for timing."""
    if _DRAWS_AND_STORES in name:
        return (name, name.replace(_DRAWS_AND_STORES, _DRAWS))
    if _DRAWS in name:
        return (name, name.replace(_DRAWS, _DRAWS_AND_STORES))
    return (name,)


def _add_required(program: Program, apis: set[str]) -> tuple[str, ...]:
    """The APIs in upstream's order. The forward program always needs ``fwd``, and split-KV whenever it appends."""
    if program is Program.BWD:
        return ("bwd",)
    every = ("fwd", "fwd_splitkv", "fwd_appendkv", "pagedkv_prefill")
    implied = {"fwd"} | ({"fwd_splitkv"} if "fwd_appendkv" in apis else set())
    return tuple(api for api in every if api in apis | implied)


def generate(generator: Path, needs: Listed, out: Path) -> tuple[Path, ...]:
    """The generated files, API files included, in the order of their names.

    Args:
        generator: the folder of upstream's ``generate.py``. Nothing is written into it.
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
        ended = run_group(command, cwd=out, env=env, output=stream, limits=TimeLimits.of_compile(_TIMEOUT_S))
    said = log.read_text("utf-8", "replace").strip().splitlines()
    if ended.returncode:
        why = said[-1] if said else f"exit status {ended.returncode}"
        raise EnvironmentProblem("upstream's generator failed", code="Y010", where=str(generator), why=why)
    files = tuple(sorted((out / "code").rglob("*.cpp")))
    missing = sorted(set(needs.names) - {path.stem for path in files})
    if missing:
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        what, why = f"upstream's generator gives no {missing[0]}{others}", f"asked for {needs.arch}, receipt {RECEIPT}"
        raise EnvironmentProblem(what, code="Y010", where=str(generator), why=why)
    return files
