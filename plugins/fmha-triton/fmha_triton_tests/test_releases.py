"""With an older Triton the kernels in Gluon are refused by K968; the others compile and pass from 3.6 (slow)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli import api, plugin
from fmha_cli.toolchain import framework
from tests.support.builds.library_releases import pip_install

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")

from fmha_triton.algorithm import Language
from fmha_triton.catalogue import algorithm_of
from fmha_triton.deciding import decide
from fmha_triton.rules import RELEASES

PROBLEMS = {
    "gfx942": "-H 2 -s 40 --seqlen-k 50 -d 64 --dtype fp16 --causal --lse",
    "sm_80": "-H 1 -s 33 --seqlen-k 40 -d 40 --dtype fp16 --lse",
    "gfx1201": "-b 2 -H 4 --kv-heads 2 -s 1 --kv-cache paged:16 --cache-seqlens 50,21 -d 64 --dtype bf16 --splits 2 --lse",
    "gfx950": "-H 1 -s 33 --seqlen-k 40 -d 64 --dtype bf16 --causal --direction bwd",
    "sm_90a": "-H 1 -s 128 -d 64 --dtype fp16 --causal",
}
"""An architecture, and what is asked of it; the last one is a kernel in Gluon where Triton has what it calls."""
GLUON = "sm_90a"
RUN = """
import sys
from fmha_cli import api

root, *lines = sys.argv[1:]
for arch, _, line in (line.partition(" ") for line in lines):
    (record,) = api.run(api.Problem.from_cli(line), backend="triton", device=f"emu:{arch}", cache_root=root)
    print(record.verdict.value, "gluon" if "language=gluon" in record.kernel.name else "triton", flush=True)
"""


def chosen() -> tuple[Language, list[set[str]]]:
    """The language of the kernel that is taken on sm_90a, and the reasons against each one in Gluon."""
    problem, device = api.Problem.from_cli(PROBLEMS[GLUON]), plugin.DeviceFacts.of_arch(GLUON)
    found = list(decide(problem, device))
    best = min((d for d in found if isinstance(d, api.Supported)), key=lambda d: d.rank)
    gluon = [d for d in found if algorithm_of(d.kernel).language is Language.GLUON]
    ids = [{r.id for r in d.reasons} if isinstance(d, api.Unsupported) else set() for d in gluon]
    return algorithm_of(best.kernel).language, ids


@pytest.mark.parametrize("release", [*RELEASES["tried"], None])
def test_an_older_triton_is_refused_the_kernels_in_gluon(release: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "find_release", lambda name: release)
    old = release is not None and RELEASES["tried"].index(release) < RELEASES["tried"].index("3.8.0")
    language, against = chosen()
    assert language is (Language.TRITON if old else Language.GLUON)
    assert {"K968" in ids for ids in against} == {old}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("release", RELEASES["tried"])
def test_each_tried_release_compiles_what_passes(release: str, cache: str, tmp_path: Path) -> None:
    library = pip_install(tmp_path / "library", f"triton=={release}")
    done = subprocess.run(
        [sys.executable, "-c", RUN, cache, *(f"{arch} {line}" for arch, line in PROBLEMS.items())],
        env=os.environ | {"PYTHONPATH": str(library), "FMHA_NO_STORE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    old = RELEASES["tried"].index(release) < RELEASES["tried"].index("3.8.0")
    assert done.stdout.splitlines() == ["PASSED triton"] * 4 + [f"PASSED {'triton' if old else 'gluon'}"]
