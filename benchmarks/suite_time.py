"""Measure the tests themselves: what README's test command, or CI as a whole, costs at some revisions, one after the other.

    python benchmarks/suite_time.py readme REV REV [--rounds 3] --work FOLDER -o readme.json
    python benchmarks/suite_time.py ci REV REV --work FOLDER -o ci.json

Each run is a fresh clone in a new virtual environment, with an empty home and empty caches. README's command sees the tools of a fresh machine
alone (``.ci/fresh``), and its installation is timed apart. CI runs as ``.ci/run`` says, but goes on behind a stage that fails; its reports stay
in ``FOLDER/RUN/reports`` for ``tools/passed_tests.py``. Times are seconds, of the processors user and system together. Only runs that were
neighbours on a machine that did nothing else make a ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STAGE = re.compile(r"^=== (.+): (\d+) s, of the processors (\d+) s(.*)$", re.MULTILINE)
COUNTS = re.compile(r"^.*\b\d+ passed.*$", re.MULTILINE)
TIMES = """taken() { tr ms '  ' <"$1" | awk '{s += 60 * ($1 + $3) + $2 + $4} END {printf "%d", s}'; }
stage() {"""
"""For revisions whose stages print no processor time."""


def measured(command: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> dict[str, float]:
    """The seconds of a command with everything that it starts. Raises CalledProcessError: it failed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("wb") as out:
        subprocess.run(
            command, cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
        )
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall, 1), "processor_s": round(spent, 1)}


def cloned(revision: str, folder: Path) -> Path:
    """A fresh clone of a revision, with this checkout's neighbour ``shared`` beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(source)], check=True)
    subprocess.run(["git", "checkout", "-q", revision], cwd=source, check=True)
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        shutil.copytree(shared, folder / "shared", copy_function=shutil.copyfile)
    return source


def variables(folder: Path) -> dict[str, str]:
    """A newcomer's environment: no settings, a home and caches of its own."""
    left = ("FMHA_", "XDG_", "CUDA_", "HIP_", "ROCM_", "PYTHON", "PYTEST_", "VIRTUAL_ENV")
    env = {key: value for key, value in os.environ.items() if not key.startswith(left)}
    own = {"HOME": "home", "XDG_CACHE_HOME": "cache", "FMHA_TEST_CACHE": "tests", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    for key, name in own.items():
        (folder / name).mkdir()
        env[key] = str(folder / name)
    return {**env, "PIP_NO_COMPILE": "0"}


def readme_run(revision: str, folder: Path) -> dict[str, Any]:
    """README's second command: the installation, then the tests."""
    source, env = cloned(revision, folder), variables(folder)
    blocks = re.findall(
        r"^```(?:bash|sh)\n(.*?)^```$", (source / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    install, _, tests = blocks[1].strip().rpartition("&& python -m pytest")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    here = f"{folder / 'env' / 'bin'}{os.pathsep}"
    installed = measured(["bash", "-ec", install], source, {**env, "PATH": here + env["PATH"]}, folder / "install.txt")
    subprocess.run([str(ROOT / ".ci" / "fresh"), str(folder / "tools")], check=True)
    fresh = {**env, "PATH": here + str(folder / "tools")}
    run = measured(["bash", "-ec", f"python -m pytest{tests}"], source, fresh, folder / "tests.txt")
    return {"revision": revision, "install": installed, "tests": run, "said": _last(folder / "tests.txt")}


def instrumented(text: str) -> str:
    """A ``.ci/run`` whose stages print the processors' seconds, and which goes on behind one that fails.

    Raises:
        ValueError: a text whose stages are others.
    """
    if "taken()" in text and "    return 0\n}" in text:
        return text
    spent = '"$(($(taken "$work/after") - $(taken "$work/before")))"'
    edits = [('    return "$status"\n}', "    return 0\n}")]
    if "taken()" not in text:
        edits += [
            ("stage() {", TIMES),
            ('    "$@" || status=$?\n', '    times >"$work/before"\n    "$@" || status=$?\n    times >"$work/after"\n'),
            (
                """: %d s%s\\n' "$name" "$((SECONDS - start))" """,
                f""": %d s, of the processors %d s%s\\n' "$name" "$((SECONDS - start))" {spent} """,
            ),
        ]
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"a .ci/run without one {old!r}")
        text = text.replace(old, new)
    return text


def ci_run(revision: str, folder: Path) -> dict[str, Any]:
    """CI with the seconds of its stages."""
    source = cloned(revision, folder)
    script = source / ".ci" / "run"
    script.write_text(instrumented(script.read_text("utf-8")), "utf-8")
    commit = ["git", "-c", "user.name=measure", "-c", "user.email=measure@localhost", "commit", "-qam", "measure"]
    subprocess.run(commit, cwd=source, check=True)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env |= {"CI": "true", "CI_REPORTS": str(folder / "reports"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    whole = measured(["bash", ".ci/run"], source, env, folder / "out.txt")
    stages = STAGE.findall((folder / "out.txt").read_text("utf-8", "replace"))
    rows = {
        name: {"wall_s": int(wall), "processor_s": int(spent), "failed": bool(failed)}
        for name, wall, spent, failed in stages
    }
    return {"revision": revision, "whole": whole, "stages": rows}


def _last(log: Path) -> str:
    found = COUNTS.findall(log.read_text("utf-8", "replace"))
    return str(found[-1]) if found else "no test ran"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("readme", "ci"))
    parser.add_argument("revisions", nargs="+", metavar="REV")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--work", type=Path, required=True, metavar="FOLDER", help="for clones, environments and reports"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    asked = parser.parse_args()
    run = readme_run if asked.what == "readme" else ci_run
    rows = []
    for number in range(asked.rounds):
        for revision in asked.revisions:
            rows.append(run(revision, asked.work.resolve() / f"{asked.what}{number}-{revision[:12]}"))
            asked.output.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
            print(shlex.join([asked.what, revision]), json.dumps(rows[-1]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
