"""NVIDIA's wheels: found by their metadata, all from one release, complete."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from fmha_cli.toolchain.cuda.packages import CCCL, COMPILER, RUNTIME, WheelProblem, list_recorded, wheel


def installed(folder: Path, title: str, record: str = "") -> Path:
    info = folder / f"{title}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text(record)
    return info


def test_a_wheel_and_its_version(tmp_path: Path) -> None:
    info = installed(tmp_path, "nvidia_cuda_nvrtc-13.0.88")
    found = wheel(COMPILER, [str(tmp_path / "nowhere"), str(tmp_path)])
    assert (found.version, found.root, found.record) == ("13.0.88", tmp_path, info / "RECORD")


@pytest.mark.parametrize("title", ["nvidia-cuda-nvrtc-13.0.48", "NVIDIA_Cuda.nvrtc-13.0.48"])
def test_other_spellings_of_a_name(tmp_path: Path, title: str) -> None:
    installed(tmp_path, title)
    assert wheel(COMPILER, [str(tmp_path)]).version == "13.0.48"


def test_a_wheel_of_a_longer_name_is_another(tmp_path: Path) -> None:
    installed(tmp_path, "nvidia_cuda_nvrtc_cu12-13.0.48")
    with pytest.raises(WheelProblem, match="nvidia-cuda-nvrtc is not installed"):
        wheel(COMPILER, [str(tmp_path)])


@pytest.mark.parametrize("version", ["12.9.86", "13.1.5", "13.00.1", "130.0.1"])
def test_another_release_is_refused(tmp_path: Path, version: str) -> None:
    installed(tmp_path, f"nvidia_cuda_cccl-{version}")
    with pytest.raises(WheelProblem, match=f"nvidia-cuda-cccl is {version}, not 13.0"):
        wheel(CCCL, [str(tmp_path)])


def test_the_first_on_the_path_counts(tmp_path: Path) -> None:
    installed(tmp_path / "one", "nvidia_cuda_runtime-12.4.1")
    installed(tmp_path / "two", "nvidia_cuda_runtime-13.0.1")
    with pytest.raises(WheelProblem, match=r"12\.4\.1"):
        wheel(RUNTIME, [str(tmp_path / "one"), str(tmp_path / "two")])


def test_the_recorded_files(tmp_path: Path) -> None:
    record = "x/include/b.h,,\nx/include/a.h,,\nx/include/__pycache__/a.pyc,,\nx/lib/c.so,,\nx/included/d.h,,\n"
    installed(tmp_path, "nvidia_cuda_runtime-13.0.1", record)
    found = wheel(RUNTIME, [str(tmp_path)])
    assert list_recorded(found, "include") == [tmp_path / "x/include/a.h", tmp_path / "x/include/b.h"]
    with pytest.raises(WheelProblem, match="holds nothing below share/"):
        list_recorded(found, "share")
    found.record.unlink()
    with pytest.raises(WheelProblem, match="record of nvidia-cuda-runtime"):
        list_recorded(found, "include")


@pytest.mark.parametrize("name", [COMPILER, RUNTIME, CCCL])
def test_what_is_installed_here(name: str) -> None:
    try:
        there = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    found = wheel(name)
    assert found.version == there.version
    assert all(path.is_file() for path in list_recorded(found, "lib" if name == COMPILER else "include"))
