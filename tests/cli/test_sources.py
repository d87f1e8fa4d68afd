"""``fmha sources`` on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.checks import check_compilers, check_tree
from fmha_cli.cli.console import Console
from fmha_cli.cli.doctor import checkers_of
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import Checker, CheckState, DoctorCheck, Surroundings
from fmha_cli.sources.pins import pin_of
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cuda import toolchain as cuda_checks
from fmha_cli.toolchain.cuda.probe import CudaKind, CudaToolchain
from fmha_cli.toolchain.cuda.toolchain import CudaFinding
from tests.cli.conftest import Fmha


def test_a_list_of_nothing(fmha: Fmha, home: Path) -> None:
    done = fmha("sources", "--cache-dir", "empty", "--json", ROCM_PATH="/nonexistent")
    assert done.code == 0
    assert {row["state"] for row in done.document["sources"]} == {"missing"}
    assert {"amd-aiter", "triton-amd"} <= {row["name"] for row in done.document["sources"]}
    if not Path("/opt/rocm/include/ck_tile").exists():
        assert done.document["trees"]["ck_tile"]["state"] == "missing"
    assert fmha("sources", "list", "--cache-dir", "empty").out.startswith("source ")


def test_options_may_stand_before_the_part(fmha: Fmha) -> None:
    done = fmha("sources", "--json", "--cache-dir", "empty", "list")
    assert done.code == 0
    assert done.document["schema"] == "fmha.sources/2"


def test_offline(fmha: Fmha, home: Path) -> None:
    done = fmha("sources", "fetch", "--offline", "--cache-dir", "empty", "--json")
    assert done.code == 4
    assert done.document["error"]["code"] == "S101"
    assert not list((home / "work" / "empty").rglob("sources/*"))


def test_an_index_that_is_not_there(fmha: Fmha, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0", "PIP_EXTRA_INDEX_URL": ""}
    for name, value in {**quiet, "PIP_INDEX_URL": "http://someone:secret@127.0.0.1:9/simple"}.items():
        monkeypatch.setenv(name, value)
    done = fmha("sources", "fetch", "amd-aiter", "--cache-dir", "empty")
    assert done.code == 4
    assert "error[S102]" in done.err
    assert "secret" not in done.err + done.out
    assert not list((home / "work" / "empty" / "sources").glob("*"))


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (("path", "amd-aiter"), 4, "S101"),
        (("path", "amd-aitr"), 2, "S100"),
        (("fetch", "x"), 2, "S100"),
        (("rm", "x"), 2, "S100"),
        (("rm",), 2, "E002"),
        (("frobnicate",), 2, "E001"),
    ],
)
def test_refusals(fmha: Fmha, argv: tuple[str, ...], code: int, error: str) -> None:
    done = fmha("sources", *argv, FMHA_CACHE_DIR="empty")
    assert done.code == code
    assert f"error[{error}]" in done.err


@pytest.mark.promise("Kernels are built from pinned sources, and NVRTC needs no GPU.")
def test_a_source_through_its_life(fmha: Fmha, shared_cache: Path, home: Path) -> None:
    cache = home / "cache"
    done = fmha("sources", "fetch", "triton-amd", "--cache-dir", str(cache))
    if done.code == 4 and "S102" in done.err:
        pytest.skip("the package index cannot be reached")
    assert done.code == 0, done.err
    path = Path(fmha("sources", "path", "triton-amd", "--cache-dir", str(cache)).out.strip())
    pin = pin_of("triton-amd")
    assert path == open_root(cache).sources / pin.folder
    assert fmha("sources", "verify", "--cache-dir", str(cache)).code == 0
    (path / pin.notice[0]).write_text("no rights")
    done = fmha("sources", "verify", "--cache-dir", str(cache), "--json")
    assert done.code == 1
    (row,) = (row for row in done.document["sources"] if row["name"] == "triton-amd")
    assert row["state"] == "damaged"
    assert row["why"] == f"{pin.notice[0]} has changed"
    assert fmha("sources", "rm", "triton-amd", "--cache-dir", str(cache)).code == 0
    assert not path.exists()


def test_a_ck_home_that_is_none(fmha: Fmha, home: Path) -> None:
    done = fmha("sources", "--ck-home", str(home), "--cache-dir", "empty", "--json")
    assert done.document["trees"]["ck_tile"]["state"] == "unfit"
    by_variable = fmha("sources", "--cache-dir", "empty", "--json", FMHA_CK_HOME=str(home))
    assert by_variable.document["trees"] == done.document["trees"]


def surroundings(home: Path, environ: dict[str, str], **options: str) -> Surroundings:
    return Surroundings(cache_root=home / "cache", environ=environ, options=options, notify=Console(quiet=True).detail)


def checks_of(home: Path, environ: dict[str, str], **options: str) -> dict[str, DoctorCheck]:
    """The doctor's checks of Composable Kernel and HIP compilers when nothing is fetched."""
    here = surroundings(home, environ, **options)
    return {check.name: check for check in (*check_tree(here), *check_compilers(here))}


def test_doctor_fetches_nothing_and_fails_for_nothing(home: Path) -> None:
    checks = checks_of(home, {"PATH": "/nonexistent"})
    assert not list((home / "cache" / "sources").glob("*"))
    if not Path("/opt/rocm").exists():
        assert {name: check.state for name, check in checks.items()} == {
            "source": CheckState.SKIPPED,
            "HIP compiler": CheckState.SKIPPED,
        }
        assert "clang" in (checks["HIP compiler"].help or "")


def test_doctor_fails_for_what_was_asked_for(home: Path) -> None:
    checks = checks_of(home, {"PATH": "/nonexistent", "FMHA_HIPCC": "/bin/false"}, **{"ck-home": str(home)})
    assert checks["source"].state is CheckState.FAILED
    assert checks["HIP compiler"].state is CheckState.FAILED


def test_an_edited_tree_is_named(fmha: Fmha, home: Path) -> None:
    tile = home / "ck" / "include" / "ck_tile"
    tile.mkdir(parents=True)
    (tile / "core.hpp").write_text("#pragma once\n")
    found = f"baseline, edited (421 files differ), from --ck-home {home / 'ck'}"
    options = {"ck-home": str(home / "ck"), "ck-as": "baseline"}
    check = checks_of(home, {"PATH": "/nonexistent", "FMHA_HIPCC": "/bin/false"}, **options)["source"]
    assert (check.state, check.what) == (CheckState.OK, found)
    assert "core.hpp, core/algorithm/cluster_descriptor.hpp (missing)" in (check.why or "")
    argv = ("sources", "--cache-dir", "empty", "--ck-home", str(home / "ck"), "--ck-as", "baseline")
    assert f"ck_tile: {found}" in fmha(*argv).out
    tree = fmha(*argv, "--json").document["trees"]["ck_tile"]
    assert (tree["edited"]["base"], tree["edited"]["files"], tree["edited"]["tree"]) == (
        "baseline",
        421,
        tree["digest"],
    )


def test_doctor_names_the_cuda_compilers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = CudaToolchain(
        kind=CudaKind.NVCC,
        path=Path("/cuda/bin/nvcc"),
        version="nvcc 13.0.88",
        capabilities=(90,),
        headers_digest="digest",
        places={},
    )
    found = [
        CudaFinding(CudaKind.NVRTC, None, "nvidia-cuda-cccl is 13.3.27, not 13.0.*", "pip install 'fmha[cuda]'"),
        CudaFinding(CudaKind.NVCC, nvcc, None),
    ]
    monkeypatch.setattr(cuda_checks, "survey_cuda", lambda root: found)
    checks = list(cuda_checks.check_compilers(surroundings(home, {})))
    assert [check.state for check in checks] == [CheckState.SKIPPED, CheckState.OK]
    assert (checks[0].why, checks[0].help) == (found[0].fault, found[0].help)
    assert checks[1].what == "nvcc 13.0.88 in /cuda/bin"


@pytest.mark.parametrize("works", [True, False])
def test_doctor_names_the_assembler_beside_nvrtc(home: Path, monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    nvrtc = CudaToolchain(
        kind=CudaKind.NVRTC,
        path=Path("/lib/libnvrtc.so.13"),
        version="NVRTC 13.0.88",
        capabilities=(90,),
        headers_digest="digest",
        places={},
    )

    def with_ptxas(found: CudaToolchain, root: Path) -> CudaToolchain:
        if not works:
            raise EnvironmentProblem("no", code="B052", why="nvidia-cuda-nvcc is not installed", help="pip install")
        return replace(found, ptxas=Path("/bin/ptxas"), version=f"{found.version}, ptxas 13.0.88")

    monkeypatch.setattr(cuda_checks, "survey_cuda", lambda root: [CudaFinding(CudaKind.NVRTC, nvrtc, None)])
    monkeypatch.setattr(cuda_checks, "with_ptxas", with_ptxas)
    compiler, assembler = cuda_checks.check_compilers(surroundings(home, {}))
    assert (compiler.state, assembler.subject) == (CheckState.OK, "ptxas")
    if works:
        assert (assembler.state, assembler.what) == (CheckState.OK, "ptxas 13.0.88 in /bin")
    else:
        assert (assembler.state, assembler.why) == (CheckState.SKIPPED, "nvidia-cuda-nvcc is not installed")


class Doctored:
    """A backend that has checks for the doctor."""

    def __init__(self, *checkers: Checker) -> None:
        self._checkers = checkers

    def checkers(self) -> tuple[Checker, ...]:
        return self._checkers


def test_a_check_that_backends_share_runs_once() -> None:
    def first(here: Surroundings) -> list[DoctorCheck]:
        return []

    def second(here: Surroundings) -> list[DoctorCheck]:
        return []

    assert checkers_of([Doctored(first), object(), Doctored(second, first)]) == (first, second)
