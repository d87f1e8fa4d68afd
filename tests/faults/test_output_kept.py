"""What an output does not replace: pipes, terminals, links, permissions, and the files that a command reads."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Fmha
from tests.cli.test_commands import SMALL
from tests.support.output_cases import PROGRAM, SWEEP


@contextmanager
def reading(path: Path) -> Iterator[Callable[[], bytes]]:
    """Read a FIFO in another thread; the result is there after the body."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    thread.start()
    yield lambda: (thread.join(30), got[0])[1]


@pytest.mark.promise("Pipes are written to, inputs are never replaced, and one failing file costs one note.")
def test_a_fifo_is_written_to_and_stays(fmha: Fmha, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.npz"
    os.mkfifo(fifo)
    with reading(fifo) as got:
        assert fmha("archs", "--json", "-o", str(fifo)).code == 0
    assert json.loads(got())["schema"] == "fmha.archs/1"
    with reading(fifo) as got:
        done = fmha("run", *SMALL, "--out", str(fifo))
        assert done.code == 0, done.err
    (tmp_path / "copy.npz").write_bytes(got())
    assert np.load(tmp_path / "copy.npz")["o"].shape == (1, 1, 32, 32)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_terminal_is_written_to_and_stays(fmha: Fmha) -> None:
    own, terminal = os.openpty()
    name = os.ttyname(terminal)
    done = fmha("schema", "-o", name)
    assert done.code == 0, done.err
    assert b"report" in os.read(own, 1 << 16)
    assert stat.S_ISCHR(os.stat(name).st_mode)
    os.close(own)
    os.close(terminal)


@pytest.mark.slow
@pytest.mark.ci
def test_what_is_stdout_already_is_not_replaced(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        out.write("before\n")
        out.flush()
        node = (tmp_path / "out").stat().st_ino
        argv = [*PROGRAM, "schema", "-o", "/proc/self/fd/1"]
        assert subprocess.run(argv, stdout=out, check=False).returncode == 0
    assert (tmp_path / "out").stat().st_ino == node
    assert (tmp_path / "out").read_text().startswith("before\n")
    assert "report" in (tmp_path / "out").read_text()


def test_a_link_stays_a_link_and_permissions_stay(fmha: Fmha, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.json").write_text("old")
    (tmp_path / "real" / "x.json").chmod(0o600)
    (tmp_path / "link").symlink_to("real/x.json")
    assert fmha("archs", "--json", "-o", str(tmp_path / "link")).code == 0
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "real" / "x.json").read_text())["schema"] == "fmha.archs/1"
    assert stat.S_IMODE((tmp_path / "real" / "x.json").stat().st_mode) == 0o600


# -- inputs ------------------------------------------------------------------------------------------------------------


@pytest.mark.promise("Pipes are written to, inputs are never replaced, and one failing file costs one note.")
@pytest.mark.parametrize("flag", ["--out", "-o"])
@pytest.mark.parametrize("how", ["same", "dots", "symlink", "hard link", "key"])
def test_an_input_is_never_overwritten(fmha: Fmha, tmp_path: Path, flag: str, how: str) -> None:
    array = np.zeros((1, 1, 8, 16), np.float16)
    source, target = tmp_path / "q.npz", tmp_path / "q.npz"
    np.savez(source, q=array)
    before = source.read_bytes()
    if how == "dots":
        (tmp_path / "a").mkdir()
        target = tmp_path / "a" / ".." / "q.npz"
    elif how != "same":
        target = tmp_path / "other.npz"
        target.symlink_to("q.npz") if how == "symlink" else target.hardlink_to(source)
    key = ":q" if how == "key" else ""
    if how == "key":
        target = source
    done = fmha("run", "--backend", "null", "--q", f"{source}{key}", flag, str(target))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[E038]: {flag} ")
    assert "--q" in done.err
    assert source.read_bytes() == before


def test_one_file_of_a_sweep_is_an_input(fmha: Fmha, tmp_path: Path) -> None:
    np.save(tmp_path / "o-2.npy", np.zeros((1, 1, 32, 32), np.float16))
    flags = ("--backend", "null", "--softcap", "1,2", "--out", f"{tmp_path}/o-{{i}}.npy")
    done = fmha("run", "--q", f"{tmp_path}/o-2.npy", *flags)
    assert done.code == 2
    assert "E038" in done.err


@pytest.mark.slow
@pytest.mark.ci
def test_the_data_do_not_replace_the_journal(fmha: Fmha, tmp_path: Path) -> None:
    journal = tmp_path / "rows.journal"
    assert fmha(*SWEEP, "--journal", str(journal)).code == 0
    before = journal.read_bytes()
    assert fmha(*SWEEP, "--resume", str(journal), "-o", str(journal)).code == 2
    assert journal.read_bytes() == before


@pytest.mark.parametrize("flag", ["--journal", "--out"])
def test_two_outputs_do_not_share_a_file(fmha: Fmha, tmp_path: Path, flag: str) -> None:
    (tmp_path / "a").mkdir()
    done = fmha("run", *SMALL, flag, str(tmp_path / "x.npz"), "-o", str(tmp_path / "a" / ".." / "x.npz"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[E038]: -o ")
    assert f"this is the file of {flag}" in done.err
    assert not (tmp_path / "x.npz").exists()


def test_a_written_file_is_named_with_its_rows(fmha: Fmha, tmp_path: Path) -> None:
    done = fmha("run", *SMALL, "--json", "-o", str(tmp_path / "x.json"))
    size = (tmp_path / "x.json").stat().st_size
    assert f"{tmp_path / 'x.json'}: 1 row, {size / 1024:.3g} KiB" in done.err
    assert str(tmp_path) not in fmha("-q", "run", *SMALL, "--json", "-o", str(tmp_path / "x.json")).err
