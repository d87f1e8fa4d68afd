"""A problem that one rule refuses, run without it: ``python -m tests.support.children.cuda.loosened_rule RULE BACKEND FLAGS`` prints the record."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

SECONDS = 3600.0
"""For one problem: NVRTC may have to compile its kernel."""


def loosen(id: str) -> None:
    """Let the check of a rule find nothing, in this process, before any backend is imported.

    Raises:
        RuntimeError: a backend is imported already, and holds the check.
    """
    from fmha_cli.backends.gpu import rule_rows

    if any(name.endswith((".problem_rules", ".choosing")) for name in sys.modules):
        raise RuntimeError("a backend's rules are made already")
    made: Callable[..., Any] = rule_rows.conditions

    def conditions(backend: str, checks: Mapping[str, Callable[..., Any]]) -> Any:
        return made(backend, {one: (lambda s, k: None) if one == id else check for one, check in checks.items()})

    rule_rows.conditions = conditions


def main(rule: str, backend: str, flags: str) -> None:
    """Run the problem."""
    loosen(rule)
    from fmha_cli.api import Problem, run

    (record,) = run(Problem.from_cli(flags), backend=backend, device="emu:sm_80", timeout=SECONDS)
    print(json.dumps(record.to_dict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
