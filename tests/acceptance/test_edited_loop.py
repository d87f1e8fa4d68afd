"""The kernel engineer's loop, executed: a copy of the pinned Composable Kernel is edited, and its kernel judged on an
emulator.

One small kernel is compiled from three states of the tree. The emulator times nothing, but it judges and counts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import environment, finished, start

pytestmark = pytest.mark.promise(
    "An edited tree is built by the rules of its revision, marked, and compared with the old one."
)

HEADER = "include/ck_tile/ops/fmha/pipeline/block_fmha_pipeline_qr_ks_vs_async.hpp"
HARMLESS = (
    "            // tail\n            {\n                block_sync_lds();\n",
    "            // tail\n            {\n                block_sync_lds();\n                block_sync_lds();\n",
)
"""One more barrier before the last product."""

MISTAKE = ("l(i_idx) = tmp * l[i_idx] + rowsum_p[i_idx];", "l(i_idx) = l[i_idx] + rowsum_p[i_idx];")
"""The sum of a row is not scaled again when its maximum grows, which takes two tiles of keys to notice."""

PROBLEM = ("-H", "1", "-s", "128", "-d", "64", "--splits", "1", "--backend", "ck_tile", "--device", "emu:gfx942")
QUICK = ("--fill", "normal", "--repeats", "1")
COMPILERS = ("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")


class Loop:
    """The tree, and ``fmha`` in a folder next to it."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder, self.env = folder, env
        self.tree = folder / "my-ck"
        self.kernel = ""

    def fmha(self, *argv: str) -> tuple[int, str, str]:
        return finished(start(*argv, env=self.env, cwd=self.folder))

    def records(self, *argv: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and the rows of a command."""
        code, out, err = self.fmha(*argv, "--json")
        if code == 4:
            pytest.skip(err or out)
        assert code in (0, 1), err
        return code, json.loads(out)["records"]

    def edit(self, change: tuple[str, str]) -> None:
        path = self.tree / HEADER
        text = path.read_text("utf-8")
        assert text.count(change[0]) == 1
        path.write_text(text.replace(*change), "utf-8")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Loop:
    """A copy of the pinned tree, and the kernel that serves the problem."""
    if find_spec("fmha_amdgpu_emu") is None:
        pytest.skip("no emulator: pip install ./plugins/fmha-amdgpu-emu")
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip(f"none of {', '.join(COMPILERS)} is installed")
    env = environment(FMHA_CACHE_DIR=str(shared_cache))
    found = Loop(tmp_path_factory.mktemp("loop"), env)
    code, out, err = found.fmha("sources", "fetch", "amd-aiter", "triton-amd")
    if code == 4:
        pytest.skip(err)
    _, out, _ = found.fmha("sources", "path", "amd-aiter")
    shutil.copytree(Path(out.strip(), "aiter_meta/3rdparty/composable_kernel"), found.tree)
    code, out, err = found.fmha("explain", *PROBLEM, "--json")
    assert code == 0, err
    found.kernel = json.loads(out)["decisions"][0]["digest"][:16]
    return found


@pytest.mark.promise("On an emulated device, a mistake in an edited copy is caught, and a harmless edit passes.")
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_loop(loop: Loop) -> None:
    pair = ("bench", *PROBLEM, "--ab", loop.kernel, f"{loop.kernel}@my-ck")

    # An unedited copy is the same kernel: an A/A test.
    code, (pinned, own) = loop.records(*pair)
    assert (code, pinned["verdict"], own["verdict"]) == (0, "PASSED", "PASSED")
    assert pinned["stages"][0]["artifact_sha256"] == own["stages"][0]["artifact_sha256"]
    assert own["stages"][0]["edited"] is None
    assert own["executed"] == pinned["executed"]

    # A harmless edit passes. Nothing is timed, and the counts differ by what was added.
    loop.edit(HARMLESS)
    code, (pinned, own) = loop.records(*pair)
    assert (code, own["verdict"], own["measurement"], own["ab"]) == (0, "PASSED", None, None)
    assert [reason["id"] for reason in own["reasons"]] == ["Z003"]
    assert (own["stages"][0]["edited"]["base"], own["stages"][0]["edited"]["files"]) == ("baseline", 1)
    assert pinned["stages"][0]["edited"] is None
    assert own["executed"][0]["barriers"] > pinned["executed"][0]["barriers"]
    assert own["executed"][0]["instructions"] > pinned["executed"][0]["instructions"]
    assert any("barriers +" in note for note in own["notes"])

    # The static counts show the edit too.
    code, out, err = loop.fmha("inspect", "--arch", "gfx942", "--diff", loop.kernel, f"{loop.kernel}@my-ck", "--json")
    assert code == 0, err
    rows = {row["name"]: row for row in json.loads(out)["rows"] if row["kind"] == "instruction"}
    assert rows["s_barrier"]["right"] > rows["s_barrier"]["left"]

    # A mistake is caught.
    loop.edit(MISTAKE)
    code, (wrong,) = loop.records("validate", *PROBLEM, *QUICK, "--kernel", loop.kernel, "--ck-home", "my-ck")
    assert (code, wrong["verdict"]) == (1, "WRONG")
    assert "--ck-home my-ck" in wrong["repro"]

    # Undone while the tree is watched, it passes in the next round.
    argv = ("validate", *PROBLEM, *QUICK, "--kernel", loop.kernel, "--ck-home", "my-ck", "--watch", "--jsonl")
    process = start(*argv, env={**loop.env, "PYTHONUNBUFFERED": "1"}, cwd=loop.folder)
    verdicts = [_next_verdict(process)]
    loop.edit((MISTAKE[1], MISTAKE[0]))
    verdicts.append(_next_verdict(process))
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert verdicts == ["WRONG", "PASSED"]
    assert process.returncode == 130
    assert f"round 2: {HEADER.removeprefix('include/ck_tile/')} changed" in err


def _next_verdict(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["schema"] == "fmha.environment/1"  # each round begins with it
    return str(json.loads(process.stdout.readline())["verdict"])
