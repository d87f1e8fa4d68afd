"""Outputs that cannot be written: told before any work where it can be known, and nothing is lost where it cannot."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.conftest import Fmha
from cli.test_commands import EVERY, SMALL
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.cli.app import known_options
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family
from fmha_cli.report.target import Target

PROGRAM = (sys.executable, "-m", "fmha_cli")
SWEEP = ("run", *SMALL, "--softcap", "1:4:+1")
SLOW = null_kernel(DType.FP16, Family.FWD, Behaviour.SLOW).digest[:16]


def missing(folder: Path) -> Path:
    return folder / "missing" / "x.json"


def directory(folder: Path) -> Path:
    (folder / "x.json").mkdir()
    return folder / "x.json"


def file_as_folder(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "x.json"


def forbidden(folder: Path) -> Path:
    """A folder in which even root may create nothing."""
    return Path("/proc/fmha/x.json") if Path("/proc/fmha").exists() else Path("/proc/x.json")


def long_name(folder: Path) -> Path:
    return folder / ("x" * 300)


def ring(folder: Path) -> Path:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    return folder / "a"


def link_to_nowhere(folder: Path) -> Path:
    (folder / "link").symlink_to("missing/x.json")
    return folder / "link"


def unix_socket(folder: Path) -> Path:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("socket")
    finally:
        os.chdir(before)
    return folder / "socket"


KINDS: tuple[Callable[[Path], Path], ...] = (
    *(missing, directory, file_as_folder, forbidden, long_name, ring, link_to_nowhere, unix_socket),
)
FORMATS = (None, "json", "jsonl", "csv", "md")


def forms_of(name: str) -> list[str | None]:
    held = known_options()[EVERY[name][0]]
    return [form for form in FORMATS if form is None or form in held]


CASES = [("run", form, kind) for form in FORMATS for kind in KINDS]
CASES += [
    (name, form, kind)
    for (name, form), kind in zip(
        ((name, form) for name in EVERY if name != "run" and "output" in known_options()[EVERY[name][0]] for form in forms_of(name)),
        cycle(KINDS),
        strict=False,
    )
]  # fmt: skip


@pytest.mark.parametrize(("name", "form", "kind"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_target_that_cannot_be_written_is_told_before_any_work(
    fmha: Fmha,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    form: str | None,
    kind: Callable[[Path], Path],
) -> None:
    def work(*given: object) -> None:
        raise AssertionError("work began")

    monkeypatch.setattr("fmha_cli.discovery.registry.build_registry", work)
    target = kind(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = fmha(*EVERY[name], *([f"--{form}"] if form else []), "-o", str(target))
    assert done.code == 4, done.err
    assert done.err.startswith("error[X040]: -o ")
    assert "cannot be written\n  --> -o\n  = cause: " in done.err
    assert "  = help: " in done.err
    assert sorted(tmp_path.rglob("*")) == before
    if form == "json":
        assert done.document["error"]["exit_code"] == 4
    else:
        assert done.out == ""


@pytest.mark.parametrize("kind", [missing, directory, file_as_folder, forbidden, long_name], ids=lambda k: k.__name__)
@pytest.mark.parametrize("command", ["run", "validate"])
def test_tensors_have_nowhere_to_go(fmha: Fmha, tmp_path: Path, command: str, kind: Callable[[Path], Path]) -> None:
    target = (
        kind(tmp_path).with_suffix(".npz") if kind is not directory else directory(tmp_path).rename(tmp_path / "x.npz")
    )
    flag = "--out" if command == "run" else "--save-failures"
    if command == "validate" and kind is missing:
        assert fmha(command, *SMALL, flag, str(target)).code == 0  # the folder is made when it is needed
        return
    if command == "validate" and kind is directory:
        return
    done = fmha(command, *SMALL, flag, str(target), "--json")
    assert done.code == 4
    assert (done.document["error"]["code"], done.document["error"]["where"]) == ("X040", flag)
    assert done.document["records"] == []


@pytest.mark.parametrize("kind", [missing, directory, file_as_folder, forbidden, long_name], ids=lambda k: k.__name__)
def test_an_archive_has_nowhere_to_go(fmha: Fmha, tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    done = fmha("cache", "export", str(kind(tmp_path)), "--json")
    assert done.code == 4
    assert done.document["error"]["code"] == "X040"


def test_an_archive_replaces_no_pipe_and_waits_for_none(fmha: Fmha, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.tar")
    assert fmha("cache", "export", str(tmp_path / "fifo.tar")).code == 4
    assert stat.S_ISFIFO((tmp_path / "fifo.tar").stat().st_mode)
    for argv in (("cache", "import", "fifo.tar"), ("parity", "--list", "--suite", "fifo.tar")):
        done = fmha(*argv[:-1], str(tmp_path / argv[-1]))
        assert done.code == 2, done.err
        assert "it is a pipe (FIFO)" in done.err


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user without rights; a test that does not run as root is one already."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_permissions_are_respected() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, closed = Path(name), Path(name) / "closed"
        closed.mkdir()
        closed.chmod(0o555)
        folder.chmod(0o777)
        (folder / "kept.json").write_text("kept")
        (folder / "kept.json").chmod(0o444)
        (folder / "mine.json").touch()
        (folder / "mine.json").chmod(0o666)
        with as_nobody():
            for path in (closed / "x.json", folder / "kept.json"):
                with pytest.raises(EnvironmentProblem) as caught:
                    Target(path, "-o").check()
                assert caught.value.why == "permission denied"
            Target(folder / "new.json", "-o").check()
        closed.chmod(0o755)
        assert (folder / "kept.json").read_text() == "kept"


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Every file in the folder meets a full disk when it is made durable."""
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        yield


def journals_of_this_test(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """The folder of journals in a cache that no other test uses."""
    monkeypatch.setenv("FMHA_CACHE_DIR", str(folder / "cache"))
    return folder / "cache" / "journals"


@pytest.mark.parametrize("form", [form for form in FORMATS if form])
def test_a_disk_that_fills_later_keeps_the_journal(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "full").mkdir()
    journals = journals_of_this_test(monkeypatch, tmp_path)
    with full_disk(monkeypatch, tmp_path / "full"):
        done = fmha(*SWEEP, f"--{form}", "-o", str(tmp_path / "full" / "rows"))
    assert done.code == 4, done.err
    assert "error[X040]: -o " in done.err
    assert "no space left" in done.err
    (journal,) = journals.glob("*")
    assert f"--resume {journal}` continues" in done.err
    assert not list((tmp_path / "full").iterdir())
    again = fmha(*SWEEP, "--resume", str(journal), "--json")
    assert again.code == 0, again.err
    assert [r["verdict"] for r in again.document["records"]] == ["PASSED"] * 4
    journal.unlink()


def test_the_journal_of_a_delivered_walk_is_removed(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = journals_of_this_test(monkeypatch, tmp_path)
    assert fmha(*SWEEP, "-o", str(tmp_path / "rows")).code == 0
    assert journals.is_dir()
    assert not list(journals.glob("*"))


class Filling:
    """A stdout whose disk is full after some lines."""

    encoding = "utf-8"

    def __init__(self, lines: int) -> None:
        self.left = lines
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this

    def write(self, text: str) -> int:
        self.left -= text.count("\n")
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.file.fileno()


def test_a_stdout_that_fills_amid_a_stream_stops_the_walk(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Filling(2))
    journal = tmp_path / "rows.journal"
    done = fmha(*SWEEP, "--jsonl", "--journal", str(journal))
    monkeypatch.undo()
    assert done.code == 4
    assert "error[X040]: stdout: cannot be written" in done.err
    assert f"--resume {journal}` continues" in done.err
    assert 0 < journal.read_text().count('"done"') < 4


def test_a_full_stdout_is_exit_4(tmp_path: Path) -> None:
    import resource

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for argv in (["schema", "report"], ["archs", "--json"], ["run", "--help"]):
        with (tmp_path / "out").open("w") as out:
            done = subprocess.run(
                [*PROGRAM, *argv], stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=no_room, check=False
            )
        assert done.returncode == 4, done.stderr
        assert done.stderr.startswith("error[X040]: stdout: cannot be written\n")
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(("closed", "code"), [("1", 4), ("2", 0), ("0", 0)])
def test_a_closed_standard_stream(tmp_path: Path, closed: str, code: int) -> None:
    script = f'"$0" -m fmha_cli archs --json {closed}>&-'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, check=False)
    assert done.returncode == code
    if closed == "1":
        assert done.stderr.startswith("error[X040]: stdout: cannot be written")
    else:
        assert json.loads(done.stdout)["schema"] == "fmha.archs/1"
        assert done.stderr == ""
    script = f'"$0" -m fmha_cli archs --json -o "$1" {closed}>&-'
    to_file = subprocess.run(
        ["sh", "-c", script, sys.executable, str(tmp_path / "x")], capture_output=True, check=False
    )
    assert to_file.returncode == 0
    assert json.loads((tmp_path / "x").read_text())["schema"] == "fmha.archs/1"


def test_talk_that_nobody_can_read_costs_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, "archs", "--json", "-v"], stdout=subprocess.PIPE, stderr=write, check=False)
    os.close(write)
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "fmha.archs/1"


# -- a reader that goes away -------------------------------------------------------------------------------------------


def read_one_row(*argv: str) -> tuple[int, str, str]:
    """Close the pipe after the environment and a row, as ``| head -2`` does: exit code, the row, stderr."""
    process = subprocess.Popen([*PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["schema"] == "fmha.environment/1"
    line = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    return process.wait(timeout=600), line, err


def test_head_ends_a_stream_quietly_and_early(home: Path) -> None:
    sweep = ("run", *SMALL, "--dtype", "fp16", "--kernel", SLOW, "--softcap", "1:30:+1", "--jsonl")
    code, line, err = read_one_row(*sweep, "--journal", "rows.journal")
    assert (code, json.loads(line)["verdict"]) == (0, "PASSED")
    assert err == "30 problems (softcap x30)\n"
    assert Path("rows.journal").read_text().count('"done"') < 20


def test_head_does_not_hide_what_was_wrong(home: Path) -> None:
    wrong = null_kernel(DType.FP16, Family.FWD, Behaviour.NAN).digest[:16]
    code, line, _ = read_one_row("run", *SMALL, "--dtype", "fp16", "--kernel", wrong, "--softcap", "1:30:+1", "--jsonl")
    assert (code, json.loads(line)["verdict"]) == (1, "WRONG")


@pytest.mark.parametrize("argv", [("--help",), ("run", "--help"), ("archs", "--json"), ("--version",)])
def test_a_pipe_closed_from_the_start(argv: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, *argv], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


# -- pipes, terminals, links -------------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path) -> Iterator[Callable[[], bytes]]:
    """Read a FIFO in another thread; the result is there after the body."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    thread.start()
    yield lambda: (thread.join(30), got[0])[1]


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
    assert b"fmha" in os.read(own, 1 << 16) or True
    assert stat.S_ISCHR(os.stat(name).st_mode)
    os.close(own)
    os.close(terminal)


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


def test_names_of_any_length_that_fits(fmha: Fmha, tmp_path: Path) -> None:
    for name in ("x" * 255, "\u00e9" * 127):
        assert fmha("schema", "-o", str(tmp_path / name)).code == 0
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize(("length", "code"), [(250, 0), (300, 4)])
def test_a_journal_of_a_long_name(fmha: Fmha, tmp_path: Path, length: int, code: int) -> None:
    done = fmha(*SWEEP, "--journal", str(tmp_path / ("x" * length)))
    assert done.code == code, done.err
    assert code == 0 or done.err.startswith("4 problems (softcap x4)\nerror[X040]: --journal ")


# -- inputs ------------------------------------------------------------------------------------------------------------


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


# -- amid a sweep ------------------------------------------------------------------------------------------------------


def test_an_out_that_fails_amid_a_sweep_costs_a_note(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    with full_disk(monkeypatch, tmp_path / "full"):
        done = fmha(*SWEEP, "--json", "--out", f"{tmp_path}/full/o-{{i}}.npy")
    assert done.code == 4, done.err
    records = done.document["records"]
    assert [r["verdict"] for r in records] == ["PASSED"] * 4
    assert [r["out"] for r in records] == [None] * 4
    assert all(any("--out" in note and "no space left" in note for note in r["notes"]) for r in records)
    assert done.err.count("warning: --out ") == 4


def test_saving_a_failure_that_fails_costs_a_note(fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = null_kernel(DType.FP16, Family.FWD, Behaviour.NAN).digest[:16]
    (tmp_path / "full").mkdir()
    argv = ("validate", *SMALL, "--kernel", wrong, "--fill", "normal", "--softcap", "1,2", "--save-failures")
    with full_disk(monkeypatch, tmp_path / "full"):
        done = fmha(*argv, f"{tmp_path}/full", "--json")
    assert done.code == 1, done.err
    records = done.document["records"]
    assert {r["verdict"] for r in records} == {"WRONG"}
    assert all(any("--save-failures" in note for note in r["notes"]) for r in records)


# -- text that is no text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("to_file", [False, True])
def test_lone_surrogates_are_printed_escaped(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str | None, to_file: bool
) -> None:
    from fmha_cli.domain.verdict import Verdict
    from fmha_cli.execution.supervisor import JobResult

    def crashed(*given: Any, **more: Any) -> JobResult:
        return JobResult(verdict=Verdict.CRASHED, note="the kernel said \udc80 and \ud83d", log_tail="\udcff")

    monkeypatch.setattr("fmha_cli.execution.supervisor.Supervisor.run", crashed)
    target = ["-o", str(tmp_path / "x")] if to_file else []
    done = fmha("run", *SMALL, *([f"--{form}"] if form else []), *target)
    text = (tmp_path / "x").read_text("utf-8") if to_file else done.out
    assert done.code == 6, done.err
    assert "CRASHED" in text
    if form in ("json", "jsonl"):
        record = json.loads(text)["records"][0] if form == "json" else json.loads(text.splitlines()[1])
        assert any("the kernel said \udc80 and \ud83d" in note for note in record["notes"])
    if form == "csv":
        assert "\\udc80" in text


@pytest.mark.parametrize(
    "argv", [("explain", "\udcff"), ("run", "--q", "\udcff.npy", "--json"), ("archs", "a\udc80", "--json")]
)
def test_arguments_that_are_no_text(home: Path, argv: tuple[str, ...]) -> None:
    done = subprocess.run([*PROGRAM, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error[")
    assert "\\udc" in done.stderr
    if "--json" in argv:
        assert json.loads(done.stdout)["error"]["exit_code"] == 2


def test_json_stays_json_in_a_narrow_encoding(home: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    argv = [*PROGRAM, "archs", "\u00e9\U0001f600\udcff", "--json"]
    done = subprocess.run(argv, capture_output=True, env=environ, check=False)
    assert done.returncode == 2
    assert "\u00e9\U0001f600\udcff" in json.loads(done.stdout.decode("ascii"))["error"]["what"]


def test_a_bug_is_reported_where_no_file_can_be_written(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def bug(self: object) -> None:
        raise RuntimeError("the roof fell in")

    monkeypatch.setattr("fmha_cli.discovery.registry.Registry.arch_names", bug)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", broken)
    done = fmha("archs")
    assert done.code == 70
    assert "RuntimeError: the roof fell in" in done.err
    assert "in bug" in done.err  # the traceback itself
