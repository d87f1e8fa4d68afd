"""The run, the machine and the revision that a record states."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli import api
from fmha_cli.domain.codec import to_json
from fmha_cli.report.parts import SelectedBy
from fmha_cli.run.invocation import sources_of
from fmha_cli.run.origin import GitRevision, this_host
from tests.support.generators.journals import cut

PROBLEM = api.Problem.from_cli("-H 1 -s 16 -d 8")
NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


def git(folder: Path, *words: str) -> str:
    own = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")
    ended = subprocess.run(["git", *own, *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return ended.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and a folder in it."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("1")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def asked(folder: Path) -> tuple[str | None, bool | None]:
    with GitRevision(folder) as revision:
        revision.wait()
        revision.wait()
    return revision.commit, revision.dirty


@NEEDS_GIT
def test_the_revision_is_the_commit_at_the_current_folder(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert asked(repository / "deep" / "er") == (commit, False)
    (repository / "new").write_text("untracked files say nothing about the revision")
    assert asked(repository) == (commit, False)
    (repository / "a").write_text("2")
    assert asked(repository) == (commit, True)


@NEEDS_GIT
def test_the_repository_starts_no_program(repository: Path) -> None:
    """``core.fsmonitor`` names a program that git status would start."""
    program = repository / "planted.sh"
    program.write_text(f"#!/bin/sh\ntouch {repository / 'started'}\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    assert asked(repository)[0] is not None
    assert not (repository / "started").exists()


def _no_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but an empty folder."""


def _broken_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git").write_text("gitdir: nowhere")


def _no_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git").mkdir()
    monkeypatch.setenv("PATH", str(folder))


def _no_commit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git"):
        git(folder, "init", "-q")


def _slow_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git").mkdir()
    slow = folder / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("fmha_cli.run.origin.LONGEST_S", 0.05)


@pytest.mark.parametrize("plant", [_no_repository, _broken_repository, _no_git, _no_commit, _slow_git])
def test_a_missing_revision_is_null_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    plant(tmp_path, monkeypatch)
    assert asked(tmp_path) == (None, None)


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with GitRevision() as revision:
        revision.wait()
    assert revision.commit is None


def machine(root: Path) -> Path:
    """The folders ``proc`` and ``sys`` of a machine with one accelerator and a disk."""
    card, disk = (root / "sys/bus/pci/devices" / name for name in ("0000:01:00.0", "0000:02:00.0"))
    for place, kind in ((card, "0x120000"), (disk, "0x010802")):
        place.mkdir(parents=True)
        for name, text in (("class", kind), ("vendor", "0x1234"), ("device", "0x5678")):
            (place / name).write_text(text + "\n")
    (root / "sys/module/paper").mkdir(parents=True)
    (root / "sys/module/paper/version").write_text("1.2.3\n")
    (card / "driver").symlink_to(root / "sys/module/paper")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: A Paper CPU @ 1 GHz\n")
    return root


def test_the_host_is_described_without_opening_a_device(tmp_path: Path) -> None:
    host = this_host(machine(tmp_path))
    assert host.processor.name == "A Paper CPU @ 1 GHz"
    assert host.accelerators == ("0x1234:0x5678 paper",)
    assert host.drivers == {"paper": "1.2.3"}
    assert host == this_host(tmp_path)
    for change in (
        {"processor": replace(host.processor, model=9)},
        {"cores": 99},
        {"memory_gib": 9999},
        {"drivers": {"paper": "2"}},
    ):
        assert replace(host, **change).digest != host.digest  # type: ignore[arg-type]


def test_the_host_names_no_user_and_no_folder() -> None:
    text = str(to_json(this_host()))
    assert "/" not in text.replace("//", "").replace(this_host().processor.name, "")
    assert os.environ.get("HOME", "/nowhere") not in text


@pytest.mark.promise("A record says which run, machine and choice it comes from; older records are read.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_record_states_its_run_and_how_its_kernel_was_chosen() -> None:
    first, second = api.run(PROBLEM, replace(PROBLEM, seqlen_k=24), backend="null", label="nightly")
    assert first.run is not None
    assert first.run == second.run
    assert first.run.label == "nightly"
    assert (first.started or "") >= first.run.started
    assert first.host == this_host().digest
    assert first.selected_by is SelectedBy.DEFAULT
    assert first.kernel is not None
    (again,) = api.run(PROBLEM, backend="null", kernel=first.kernel.name)
    assert again.run is not None
    assert again.run.id != first.run.id
    assert again.selected_by is SelectedBy.KERNEL


def test_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    problems, path = (PROBLEM, replace(PROBLEM, seqlen_k=24)), str(tmp_path / "j")
    done = api.run(*problems, backend="null", journal=path)
    cut(Path(path), 1)
    again = api.run(*problems, backend="null", resume=path)
    assert again[0] == done[0]
    assert again[1].run is not None
    assert done[1].run is not None
    assert again[1].run.id == done[1].run.id


def test_the_sources_of_a_plugin_are_its_files() -> None:
    plugin = next(p for p in api.build_registry().plugins if p.name == "null")
    listing = sources_of(plugin).decode()
    assert "session.py" in listing
    assert "null.json" in listing
    assert "pyc" not in listing
