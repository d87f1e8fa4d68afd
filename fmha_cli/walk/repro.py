"""The command line that gives one row again when pasted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fmha_cli.device import is_emulated
from fmha_cli.flags import FILLED
from fmha_cli.problem import Problem
from fmha_cli.walk.request import FILLS, Command, Request


def repro_line(problem: Problem, request: Request, digest: str | None = None) -> str:
    """``fmha COMMAND FLAGS``: the problem's shortest flags, the files, and the options that matter for the row.

    Args:
        digest: of the kernel, when the row is not the one that the same flags would choose.
    """
    files = {key: spec for key, spec in request.files.items() if not spec.startswith(FILLED)}
    words = ["fmha", request.command.value, *_without_replaced(problem.repro().split(), files)]
    for key, spec in files.items():
        words += [f"--{key.replace('_', '-')}", spec]
    if digest is not None:
        words += ["--kernel", digest[:16]]
    elif request.kernel:
        words += ["--kernel", request.kernel]
    words += ["--backend", request.backend] if request.backend != "auto" else []
    words += ["--arch", request.arch] if request.arch else []
    words += ["--device", request.device] if request.device else []
    words += ["--fill-seed", str(request.fill_seed)] if request.fill_seed else []
    fills, default = (request.fills, FILLS) if request.command is Command.VALIDATE else (request.fills[:1], FILLS[:1])
    words += ["--fill", ",".join(fills)] if fills != default else []
    words += ["--threads", str(request.threads)] if request.threads else []
    if is_emulated(request.device):
        words += ["--emu-seed", str(request.emu_seed)] if request.emu_seed else []
        words += ["--emu-turn", str(request.emu_turn)] if request.emu_turn else []
        words += ["--no-emu-checks"] if not request.emu_checks else []
    words += ["--no-check"] if not request.check else []
    return shlex.join(words)


def _without_replaced(words: list[str], files: Mapping[str, str]) -> list[str]:
    """The problem's flags without the ``filled`` tensors for which a file was given."""
    out: list[str] = []
    rest = iter(words)
    for word in rest:
        key = word.lstrip("-").replace("-", "_")
        if key in files and word.startswith("--"):
            next(rest, None)
            continue
        out.append(word)
    return out
