"""``Check``: a list of cases, how to run one, and what the rows amount to."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from fmha_cli.api import FmhaError, Problem, Registry, Supported
from fmha_cli.domain.protocols import Keyed
from fmha_cli.plugin import Backend, BuildContext, DeviceFacts, Stage, cache_root

ROOT = Path(__file__).resolve().parents[2]
Row = Mapping[str, Any]
"""The rows of a case, as JSON values. A case may have several rows."""
By = str | Callable[[Mapping[str, Any]], Any]
T = TypeVar("T")


def passed(row: Row) -> bool:
    """Whether a row's verdict is PASSED."""
    return bool(row["verdict"] == "PASSED")


@dataclass(frozen=True, kw_only=True)
class Check(Generic[T]):
    """One check.

    Attributes:
        cases: everything that can be run, in order.
        carry_out: the row or rows of a case, a function of a module. May raise what ``runner.REFUSALS`` names; then the case counts as refused.
        by: two members of the rows, or functions of a row: the summary counts the rows by both.
        summarise: what a person reads of all rows besides, in Markdown.
        name: of a case: unique, and what ``--select`` looks at.
        good: whether a row is as it should be.
        stands: whether a row need not be made again while what it depends on is the same; by default as ``good``.
        depends: what the rows of a case depend on in addition to the case itself, as JSON values. Its digest is kept
            with the rows.
        keep: what ``--write`` writes in place of the rows.
        limit: of the processes of ``--jobs``; called first in each.
    """

    cases: Callable[[], Iterable[T]]
    carry_out: Callable[[T], Row | Iterable[Row]]
    by: tuple[By, By] = ("arch", "verdict")
    summarise: Callable[[Sequence[Row]], str] | None = None
    name: Callable[[T], str] = str
    good: Callable[[Row], bool] = passed
    stands: Callable[[Row], bool] | None = None
    depends: Callable[[T], object] = lambda case: None
    keep: Callable[[Sequence[Row]], None] | None = None
    limit: Callable[[], None] | None = None


def run_module(
    module: str, *words: str, plugin: str = "", seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module of the tests, or of a plugin's, in a process of its own. Raises ``subprocess.TimeoutExpired``."""
    paths = (str(ROOT / "plugins" / plugin) if plugin else "", str(ROOT), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=seconds)


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a process.

    Raises:
        ValueError: it failed; the last line of what it said.
    """
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
    return done.stdout


@cache
def revision() -> str:
    """The revision of this checkout, ``-dirty`` if files differ from it."""
    asked = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*")
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


@cache
def code(*places: str) -> str:
    """A digest of the Python and C++ files in some folders of the checkout."""
    digest = hashlib.sha256()
    for path in sorted(path for place in places for path in (ROOT / place).rglob("*") if path.is_file()):
        if path.suffix != ".pyc":
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def product(*plugins: str) -> str:
    """A digest of the product and of some plugins, for what depends on nearly all of it."""
    return code("fmha_cli", "arch_specs", *(f"plugins/{name}/src" for name in plugins))


def builds(registry: Registry, backend: str, flags: str, device: DeviceFacts, kernel: str = "") -> list[str]:
    """The keys of what is built for a problem: sources, flags and compilers. Without a key, the kernel's name stands for it."""
    one, problem = registry.backend(backend), Problem.from_cli(flags)
    decisions = (d for d in one.decide(problem, device) if isinstance(d, Supported) and kernel in ("", d.kernel.name))
    best = min(decisions, key=lambda d: d.rank, default=None)
    if best is None:
        return []
    plan = one.plan(problem, best.kernel, device)
    context = BuildContext(cache_root=cache_root())
    return [build_key(one, stage, context) for stage in plan.stages]


def build_key(backend: Backend, stage: Stage, context: BuildContext) -> str:
    """The key of a stage's build; the kernel's name for a backend that has none."""
    if not isinstance(backend, Keyed):
        return stage.kernel.name
    try:
        key = backend.cache_key(stage, context)
    except FmhaError as fault:
        return f"no key: {fault.what}"
    return str(getattr(key, "digest", key))
