"""Test files of other projects: where a checkout is, whether it is the pinned one, and which of a test's cases are run.

A checkout is named by an environment variable, as in ``git clone URL; git -C DIR checkout COMMIT``. Nothing is fetched here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SuiteCase = dict[str, Any]

_ENVIRONMENT = dict(os.environ)  # as it was at collection: the suite's fixtures hide FMHA_* variables from every test


@dataclass(frozen=True)
class Suite:
    """A project's tests at one revision.

    Attributes:
        variable: the environment variable that names the checkout.
        digests: path in the checkout -> SHA-256 of its file.
    """

    url: str
    commit: str
    variable: str
    digests: Mapping[str, str]

    def missing(self) -> str | None:
        """Why the files cannot be read, or None. A file of another revision counts as missing."""
        root = _ENVIRONMENT.get(self.variable, "")
        if not root:
            return f"{self.variable} names no checkout of {self.url} at {self.commit[:12]}"
        for path, digest in self.digests.items():
            file = Path(root) / path
            if not file.is_file():
                return f"{self.variable}: {path} is not there"
            if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                return f"{self.variable}: {path} is not that of {self.commit[:12]}"
        return None

    def load(self, path: str, name: str) -> ModuleType:
        """The file as a module, which ``sys.modules`` does not hold.

        Raises:
            ImportError: as the file's own imports raise it.
        """
        spec = importlib.util.spec_from_file_location(name, Path(_ENVIRONMENT[self.variable]) / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@contextmanager
def stand_ins(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Have imports of these names find these modules."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def cases_of(function: Callable[..., object]) -> list[SuiteCase]:
    """Every combination of the values with which pytest would call a test."""
    axes: list[list[SuiteCase]] = []
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args[:2]
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            axes.append([dict(zip(names, value if len(names) > 1 else (value,), strict=True)) for value in values])
    return [{name: value for part in parts for name, value in part.items()} for parts in product(*axes)]


def sample(cases: Iterable[SuiteCase], number: int, seed: str) -> list[SuiteCase]:
    """``number`` of the cases, always the same for one seed."""
    cases = list(cases)
    return random.Random(seed).sample(cases, min(number, len(cases)))


def named(case: SuiteCase) -> str:
    """A case as a test's id."""
    return "-".join(
        f"{name}={str(value).removeprefix('torch.').replace(' ', '')}" for name, value in sorted(case.items())
    )


def skipped(reason: str) -> list[Any]:
    """The one parameter of a suite that cannot run."""
    return [pytest.param(None, None, marks=pytest.mark.skip(reason=reason), id="suite")]


def taken(tests: Sequence[tuple[str, SuiteCase]]) -> list[Any]:
    """The parameters (name of the test, case)."""
    return [pytest.param(name, case, id=f"{name}-{named(case)}") for name, case in tests]
