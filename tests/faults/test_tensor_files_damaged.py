"""Damaged tensor files: every kind is refused with one line that says what is wrong, and nothing is read needlessly."""

from __future__ import annotations

import resource
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.domain.errors import UsageError
from fmha_cli.run import npy_files
from fmha_cli.run.tensor_files import read_tensor
from tests.cli.conftest import Fmha
from tests.support.generators.tensor_bytes import Q, described, header, npy
from tests.support.generators.tensor_changes import good, mutations
from tests.support.generators.tensor_corpus import DAMAGED

STRANGE = ("Traceback", "allow_pickle", "pickled", "zlib", "Errno", "BadZip", "ufunc", "numpy.load", "None")
"""Words that are not this tool's."""


@pytest.mark.promise("Damaged files are refused in one line, and only what is asked for is read.")
@pytest.mark.sampled(30, ci="all")
@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.timeout(60)
def test_every_kind_is_refused(fmha: Fmha, tmp_path: Path, kind: str) -> None:
    make, words = DAMAGED[kind]
    done = fmha("run", "--backend", "null", "--q", make(tmp_path))
    assert (done.code, done.out) == (2, ""), done.err
    error, *rest = done.err.splitlines()
    assert error.startswith("error[E03")
    assert words in done.err
    assert "  --> --q" in rest
    assert any(line.startswith(("  = help: ", "  = rule: ", "  = cause: ")) for line in rest)
    assert not [word for word in STRANGE if word in done.err]


def test_there_are_many_kinds() -> None:
    assert len(DAMAGED) >= 76


def test_good_files_are_read(tmp_path: Path) -> None:
    for name, spec in good(tmp_path).items():
        array = read_tensor(spec, "--q", "q")
        np.testing.assert_array_equal(array, Q, err_msg=name)
        assert array.dtype == np.float32, name
        assert array.flags.c_contiguous, name


def test_an_array_without_axes_keeps_its_shape(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.float32(3))
    assert read_tensor(str(tmp_path / "one.npy"), "--q", "q").shape == ()


@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes_never_surprise(tmp_path: Path, seed: int) -> None:
    refused = 0
    for name, data in mutations(250, seed):
        (tmp_path / name).write_bytes(data)
        try:
            read_tensor(str(tmp_path / name), "--q", "q")
        except UsageError:
            refused += 1
    assert refused > 100


def test_sizes_are_compared_with_the_memory_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npy_files, "available_bytes", lambda: 100)
    for suffix in ("npy", "npz", "safetensors"):
        spec = next(s for n, s in good(tmp_path).items() if s.endswith(suffix) and n != "key")
        with pytest.raises(UsageError, match="memory are available"):
            read_tensor(spec, "--q", "q")


def add_zeros(path: Path, name: str, head: bytes, times: int) -> None:
    """Add a deflated member: ``head`` and zeros, 64 MiB so many times. The blocks are the same, so one is compressed."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed, size, crc = start + zeros * times + packer.flush(), len(head) + times * (64 << 20), zlib.crc32(head)
    for _ in range(times):
        crc = zlib.crc32(bytes(64 << 20), crc)
    member = zipfile.ZipInfo(name)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(member, packed)
        member.compress_type, member.file_size, member.CRC = zipfile.ZIP_DEFLATED, size, crc
    with path.open("r+b") as file:
        file.seek(member.header_offset)
        file.write(member.FileHeader())


def test_zeros_are_added_as_they_would_be_read(tmp_path: Path) -> None:
    add_zeros(tmp_path / "one.zip", "zeros", b"head", 1)
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.read("zeros") == b"head" + bytes(64 << 20)


@pytest.mark.slow
@pytest.mark.ci
def test_a_bomb_costs_no_memory(tmp_path: Path) -> None:
    """A member of 1 GiB that nobody asks for, then asked for with half as much at hand."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("q.npy", npy())
    add_zeros(path, "bomb.npy", header(described("(268435456,)")), 16)
    script = (
        "import sys, resource\n"
        "from fmha_cli.run import npy_files, tensor_files\n"
        "npy_files.available_bytes = lambda: 1 << 29\n"
        "assert tensor_files.read_tensor(sys.argv[1], '--q', 'q').shape == (1, 1, 8, 16)\n"
        "try: tensor_files.read_tensor(sys.argv[1] + ':bomb', '--q', 'q')\n"
        "except Exception as error: assert 'needs 1.00 GiB' in error.what, error\n"
        "else: raise SystemExit('it was read')\n"
    )
    limit = 1 << 30

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 0, done.stderr
