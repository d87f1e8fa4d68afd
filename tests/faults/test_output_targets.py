"""Outputs that cannot be written are reported before any work, where it can be known (later: ``test_output_full.py``)."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from fmha_cli.cli.commands import known_options
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.target import Target
from tests.cli.conftest import Fmha
from tests.cli.test_commands import EVERY, SMALL
from tests.support.output_cases import FORMATS, SWEEP


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


@pytest.mark.promise(
    "Exit code 4: no such device, compiler or sources, or an output that cannot be written.",
    "An output that cannot be written is reported before any work, or costs no row later.",
)
@pytest.mark.sampled(20, ci=60)
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


@pytest.mark.sampled(3, ci="all")
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


def test_names_of_any_length_that_fits(fmha: Fmha, tmp_path: Path) -> None:
    for name in ("x" * 255, "\u00e9" * 127):
        assert fmha("schema", "-o", str(tmp_path / name)).code == 0
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize(("length", "code"), [(250, 0), (300, 4)])
def test_a_journal_of_a_long_name(fmha: Fmha, tmp_path: Path, length: int, code: int) -> None:
    done = fmha(*SWEEP, "--journal", str(tmp_path / ("x" * length)))
    assert done.code == code, done.err
    assert code == 0 or done.err.startswith("4 problems (softcap x4)\nerror[X040]: --journal ")
