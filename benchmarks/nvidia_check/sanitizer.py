"""compute-sanitizer on a few cases: memcheck and racecheck, if the tool is installed and accepts the device."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nvidia_check.budget import Budget, out_of_time
from nvidia_check.results import Result
from nvidia_check.shards import Setting, Wanted, environ_of_children, program, row_of

TOOLS = ("memcheck", "racecheck")
FOLDERS = ("/usr/local/cuda/bin", "/usr/local/cuda-13.0/bin", "/opt/cuda/bin")
LEAST_S, MOST_S = 15.0, 90.0
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
_REFUSED = ("Device not supported", "not supported on this", "Unable to find", "initialization error")
REFUSES = "compute-sanitizer refuses"
Run = Callable[[Sequence[str], float], tuple[int, str]]


def tool() -> str | None:
    """The program, or None if it is not installed."""
    return shutil.which("compute-sanitizer") or next(
        (found for folder in FOLDERS if (found := shutil.which("compute-sanitizer", path=folder))), None
    )


def run_command(words: Sequence[str], seconds: float) -> tuple[int, str]:
    """The exit code (-1 after a timeout) and all output."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, check=False, env=environ_of_children()
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end within {seconds:.0f} s"
    return done.returncode, done.stdout + done.stderr


def command(tool_path: str, name: str, case: Wanted, setting: Setting) -> list[str]:
    """The command line of one case under one tool. Child processes are checked too, because the worker is one."""
    slow = replace(setting, fills=("normal",), timeout_s=MOST_S)
    records = setting.folder / f"sanitizer-{name}-{re.sub(r'[^a-z0-9]+', '-', case.name.lower())}.jsonl"
    records.unlink(missing_ok=True)
    tool_words = [tool_path, "--tool", name, "--target-processes", "all"]
    own = [*program(), "validate", "--device", setting.device, *shlex.split(case.flags), *slow.options]
    return [*tool_words, *own, "-o", str(records)]


def sanitize(
    cases: Sequence[Wanted], setting: Setting, budget: Budget, program: str | None, run: Run = run_command
) -> list[Result]:
    """A row for every case and tool."""
    out: list[Result] = []
    refusal = None if program else "compute-sanitizer is not installed here"
    for name in TOOLS:
        for case in cases:
            result = Result("sanitizer", f"{name}: {case.name}", case.flags, families=list(case.families))
            seconds = budget.share(LEAST_S, MOST_S)
            if refusal is not None:
                result.why = refusal
            elif seconds is None:
                result.why = out_of_time(budget, result.name)
            else:
                assert program is not None  # without a refusal, the program exists
                words = command(program, name, case, setting)
                code, said = run(words, seconds)
                result.verdict, result.why = judged(code, said)
                refusal = result.why if (result.why or "").startswith(REFUSES) else None
                if result.verdict == "PASSED":
                    row = row_of("sanitizer", case, Path(words[-1]))
                    result.verdict, result.why, result.used = row.verdict, row.why, row.used
                Path(words[-1]).with_suffix(".log").write_text(said, "utf-8")
            out.append(result)
    return out


def judged(code: int, said: str) -> tuple[str, str | None]:
    """The verdict and reason in the tool's output; without a summary, it judged nothing."""
    refused = next((line.strip() for line in said.splitlines() if any(words in line for words in _REFUSED)), None)
    if refused is not None:
        return "NOT_RUN", f"{REFUSES}: {refused[:200]}"
    if code == -1:
        return "NOT_RUN", said
    counts = [int(n) for n in _SUMMARY.findall(said)]
    if not counts:
        return "NOT_RUN", f"compute-sanitizer gave no summary (exit {code}): {said.strip()[-200:]}"
    if sum(counts):
        first = next((line for line in said.splitlines() if "=========" in line and line.strip("= ")), "")
        return "WRONG", f"{sum(counts)} errors; first: {first.strip()[:200]}"
    return (
        ("PASSED", None)
        if code == 0
        else ("CRASHED", f"exit {code} without an error of the tool's: {said.strip()[-200:]}")
    )
