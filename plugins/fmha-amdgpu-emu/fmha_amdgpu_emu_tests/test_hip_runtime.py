"""The emulator's HIP runtime: hip-python's calls, bundles, programs linked with open symbols, reports."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hip", reason="hip-python is not installed")

from fmha_amdgpu_emu.device_facts import device_of, emulated_archs

from fmha_amdgpu_emu_tests.support.harness import tool
from fmha_amdgpu_emu_tests.support.hip_building import code_object, compiled, environment, library, run, run_child
from fmha_amdgpu_emu_tests.support.hip_runtime_cases import CASES

HERE = Path(__file__).parent / "support"
CHILD = HERE / "hip_runtime_child.py"
Codes = dict[str, Path]


@pytest.fixture(scope="module")
def codes() -> Codes:
    """The kernels of the anchor for two architectures."""
    return {arch: code_object(HERE / "hip_kernels.hip", arch) for arch in ("gfx942", "gfx1201")}


@pytest.fixture(scope="module", params=("gfx942", "gfx1201"))
def cases(request: pytest.FixtureRequest, codes: Codes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    arch: str = request.param
    found: dict[str, str] = json.loads(
        run_child(CHILD, arch, tmp_path_factory.mktemp("cases"), str(library()), str(codes[arch]), "cases")
    )
    return found


@pytest.mark.parametrize("case", sorted(CASES))
def test_runtime(cases: dict[str, str], case: str) -> None:
    assert not cases[case], cases[case]


def test_what_is_not_provided_is_said_by_name(codes: Codes, tmp_path: Path) -> None:
    """For every function that hip-python knows, the runtime has it or lacks the symbol; hip-python names the missing one."""
    found = json.loads(run_child(CHILD, "gfx942", tmp_path, str(library()), str(codes["gfx942"]), "absent"))
    assert len(found) > 450
    said = {name for name, answer in found.items() if answer == "by name"}
    assert sum(answer == "present" for answer in found.values()) > 130
    assert set(found.values()) == {"present", "by name", "not asked"}, found
    assert {"hipGraphCreate", "hipDeviceReset", "hipDeviceSetLimit"} <= said


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_services_of_the_host_are_not_offered(arch: str, tmp_path: Path) -> None:
    """printf and malloc on the device stop the launch with a message."""
    code = code_object(HERE / "hip_services.hip", arch)
    found = json.loads(run_child(CHILD, arch, tmp_path, str(library()), str(code), "services"))
    (says, kept), (allocates, kept_too) = found["says"], found["allocates"]
    assert says.endswith("the kernel calls the host (printf or assert), and hostcalls are not offered")
    assert " in says: " in says
    assert allocates.endswith("the kernel allocates memory (malloc or new), and a device heap is not offered")
    assert kept
    assert kept_too


def _bundle(entries: list[tuple[str, bytes]]) -> bytes:
    """An offload bundle: clang's documentation, "Clang Offload Bundler", bundled binary layout."""
    offset = 32 + sum(24 + len(name) for name, _ in entries)
    head, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    for name, data in entries:
        place = (offset + len(body) + 4095) // 4096 * 4096
        body += b"\0" * (place - offset - len(body)) + data
        head += struct.pack("<QQQ", place, len(data), len(name)) + name.encode()
    return head + body


def test_bundles(codes: Codes, tmp_path: Path) -> None:
    host = ("host-x86_64-unknown-linux-gnu", b"")
    triple = "hipv4-amdgcn-amd-amdhsa--"
    cdna, rdna = codes["gfx942"].read_bytes(), codes["gfx1201"].read_bytes()
    cases: dict[str, tuple[bytes, bool | int]] = {
        "both": (_bundle([host, (triple + "gfx1201", rdna), (triple + "gfx942", cdna)]), True),
        "fitting": (_bundle([(triple + "gfx942:xnack+", rdna), (triple + "gfx942:sramecc+:xnack-", cdna)]), True),
        "other-flag": (_bundle([host, (triple + "gfx942:xnack+", cdna)]), 209),
        "other-arch": (_bundle([host, (triple + "gfx1201", rdna)]), 209),
        "mislabelled": (_bundle([(triple + "gfx942", rdna)]), 209),
        "plain": (cdna, True),
        "cut": (_bundle([(triple + "gfx942", cdna)])[:-9000], 200),
        "damaged": (_bundle([(triple + "gfx942", b"x" * 5000)]), 200),
    }
    for name, (data, _) in cases.items():
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in cases]
    found = json.loads(
        run_child(CHILD, "gfx942", tmp_path / "c", str(library()), str(codes["gfx942"]), "modules", *paths)
    )
    assert {Path(path).name: answer for path, answer in found.items()} == {
        name: want for name, (_, want) in cases.items()
    }


def test_packed_bundles(codes: Codes, tmp_path: Path) -> None:
    """clang-offload-bundler unpacks them; without it, the runtime reports so."""
    bundler = tool("clang-offload-bundler-22", "clang-offload-bundler")
    empty, packed = tmp_path / "empty", tmp_path / "packed"
    empty.write_bytes(b"")
    subprocess.run(
        [bundler, "--type=o", "--compress", f"--output={packed}", f"--input={empty}", f"--input={codes['gfx942']}",
         "--targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx942"], check=True,
    )  # fmt: skip
    if not packed.read_bytes().startswith(b"CCOB"):
        pytest.skip("this clang-offload-bundler does not compress")
    words = (str(library()), str(codes["gfx942"]), "modules", str(packed))
    found = json.loads(run_child(CHILD, "gfx942", tmp_path / "c", *words, FMHA_EMU_BUNDLER=bundler))
    assert found == {str(packed): True}
    found = json.loads(run_child(CHILD, "gfx942", tmp_path / "c", *words, FMHA_EMU_BUNDLER="/no/such/bundler"))
    assert found == {str(packed): 200}


@pytest.fixture(scope="module")
def program() -> Path:
    """A program for three architectures, linked as fmha links upstream's examples if there is no runtime."""
    if not any(shutil.which(name) for name in ("clang-offload-bundler-22", "clang-offload-bundler")):
        pytest.skip("clang-offload-bundler is not installed")
    archs = (f"--offload-arch={arch}" for arch in ("gfx90a", "gfx942", "gfx1201"))
    link = ("-fuse-ld=lld", "-Wl,--warn-unresolved-symbols", "-Wl,-z,lazy", "-no-hip-rt")
    return compiled(HERE / "hip_program.hip", *archs, *link)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1201"])
def test_a_program_runs_unchanged(program: Path, tmp_path: Path, arch: str) -> None:
    report = tmp_path / "report"
    env = environment(arch, tmp_path / "cache", LD_PRELOAD=str(_preloaded(tmp_path)), FMHA_EMU_REPORT=str(report))
    said = run([str(program)], env)
    assert said.startswith("wrong: 0, groups: ")
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["executed"][0]["launches"] for line in lines] == [1, 1]
    assert all(line["fault"] is None and line["findings"] == [] for line in lines)
    assert "scale" in lines[0]["executed"][0]["kernel"]


def _preloaded(folder: Path) -> Path:
    """The library under the name that the loader looks for."""
    place = folder / "libamdhip64.so"
    place.symlink_to(library())
    return place


def test_a_program_that_overruns_leaves_a_finding(program: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    env = environment("gfx942", tmp_path / "cache", LD_PRELOAD=str(_preloaded(tmp_path)), FMHA_EMU_REPORT=str(report))
    run([str(program), "overrun"], env)
    (found,) = json.loads(report.read_text().splitlines()[2])["findings"]
    assert (found["kind"], found["count"]) == ("out-of-bounds", 25)


def test_a_program_that_needs_more_stops_by_name(program: Path, tmp_path: Path) -> None:
    env = environment("gfx942", tmp_path / "cache", LD_PRELOAD=str(_preloaded(tmp_path)))
    done = subprocess.run([str(program), "absent"], env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 127
    assert done.stdout.endswith("asking for a graph\n")
    assert "undefined symbol: hipGraphCreate" in done.stderr


@pytest.mark.parametrize("arch", ["gfx1100", "gfx999", ""])
def test_a_program_without_a_fitting_device(program: Path, tmp_path: Path, arch: str) -> None:
    env = environment(arch, tmp_path / "cache", LD_PRELOAD=str(_preloaded(tmp_path)))
    done = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 3
    if arch == "gfx1100":  # a device for which the program contains no code
        assert "hipErrorNoBinaryForGpu" in done.stdout
        assert "no code object for gfx1100, only for gfx1201, gfx90a, gfx942" in done.stderr
    else:
        assert "hipErrorNoDevice" in done.stdout
        assert "fmha-emu:" in done.stderr


def test_devices_have_every_fact() -> None:
    for arch in emulated_archs():
        device = device_of(arch)
        assert device.wave in (32, 64)
        assert min(device.units, device.lds_of_group, device.unit_threads, device.unit_registers) > 0
