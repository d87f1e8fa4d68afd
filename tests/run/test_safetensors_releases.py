"""What fmha writes is what the safetensors library writes, byte for byte; its releases know different types (slow)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.run.safetensors_files import safetensors_of
from fmha_cli.toolchain.framework import numbers_of
from tests.support.builds.library_releases import pip_install

SINCE = {
    "float64": "0.4.5",
    "float32": "0.4.5",
    "float16": "0.4.5",
    "bfloat16": "0.4.5",
    "int32": "0.4.5",
    "uint8": "0.4.5",
    "bool": "0.4.5",
    "float8_e4m3fn": "0.4.5",
    "float8_e5m2": "0.4.5",
    "float8_e8m0fnu": "0.6.2",
    "float8_e4m3fnuz": "0.8.0",
    "float8_e5m2fnuz": "0.8.0",
}
"""numpy type -> the first of the tried releases that writes and reads it."""
TRIED = ("0.4.5", "0.5.3", "0.6.2", "0.7.0", "0.8.0")
READ = """
import json, sys
from pathlib import Path
import ml_dtypes, numpy as np, safetensors
from safetensors.numpy import save
folder, *names = sys.argv[1:]
told = {}
for name in names:
    array = np.arange(6, dtype=np.float32).astype(getattr(ml_dtypes, name, None) or name).reshape(2, 3)
    ours = (Path(folder) / name).read_bytes()
    try:
        told[name] = ["writes it alike" if save({"x": array, "y": np.arange(3, dtype=np.float32)}) == ours else "otherwise"]
    except safetensors.SafetensorError:
        told[name] = ["does not write it"]
    try:
        (found,) = [about for key, about in safetensors.deserialize(ours) if key == "x"]
        told[name].append("reads it" if bytes(found["data"]) == array.tobytes() and found["shape"] == [2, 3] else "otherwise")
    except safetensors.SafetensorError:
        told[name].append("does not read it")
print(json.dumps(told))
"""


def written(name: str) -> bytes:
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    x = np.arange(6, dtype=np.float32).astype(kind).reshape(2, 3)
    return safetensors_of({"x": x, "y": np.arange(3, dtype=np.float32)})


@pytest.mark.parametrize("name", SINCE)
def test_a_file_is_the_library_s(name: str) -> None:
    library = pytest.importorskip("safetensors", minversion="0.8.0", reason="safetensors 0.8 is not installed")
    numpy = pytest.importorskip("safetensors.numpy")
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    x, y = np.arange(6, dtype=np.float32).astype(kind).reshape(2, 3), np.arange(3, dtype=np.float32)
    assert written(name) == numpy.save({"x": x, "y": y}), library.__version__


def test_names_beyond_ascii_and_empty_tensors_are_the_library_s() -> None:
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    arrays = {"ß": np.zeros((0, 4), np.float32), "a": np.ones(3, np.float16), "b": np.ones((), np.float64)}
    assert safetensors_of(arrays) == numpy.save(arrays)


def test_a_type_without_a_name_becomes_float32() -> None:
    four = np.arange(4, dtype=np.float32).astype(ml_dtypes.float4_e2m1fn)
    assert safetensors_of({"x": four}) == safetensors_of({"x": four.astype(np.float32)})


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", TRIED)
def test_each_release_reads_and_writes_the_same_file(release: str, tmp_path: Path) -> None:
    """A release that does not know a type refuses to write it, and to open a file that holds it."""
    library = pip_install(tmp_path / "library", f"safetensors=={release}")
    for name in SINCE:
        (tmp_path / name).write_bytes(written(name))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path), *SINCE],
        env={"PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, told in json.loads(done.stdout).items():
        knows = numbers_of(release) >= numbers_of(SINCE[name])
        assert told == (["writes it alike", "reads it"] if knows else ["does not write it", "does not read it"]), name
