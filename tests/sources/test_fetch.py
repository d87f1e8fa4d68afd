"""Fetching from an index over HTTP and from folders: errors, and no leftovers."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, UsageError
from fmha_cli.domain.installation import SourceState
from fmha_cli.domain.phases import Phase
from fmha_cli.sources import store
from fmha_cli.sources.pins import Pin
from fmha_cli.sources.pip_settings import PipSettings
from fmha_cli.sources.store import fetch_pin, fetch_source, remove, standing
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.notice import as_text
from tests.sources.conftest import FILES, OTHERS, Index, Notices, nothing_left, pin_for, tar_of, zip_of

TAR = tar_of({**OTHERS, **FILES})
WHEEL = zip_of({**OTHERS, **FILES})


def files_of(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found.pop(".fmha-source.json")
    return found


@pytest.fixture
def pin(index: Index) -> Pin:
    """A tar archive that the index offers."""
    index.files["p-1.tar.gz"] = TAR
    return pin_for(TAR)


@pytest.fixture
def wheel(index: Index) -> Pin:
    """A wheel that the index offers."""
    index.files["p-1.whl"] = WHEEL
    return pin_for(WHEEL, "p-1.whl", "")


@pytest.mark.parametrize("kind", ["pin", "wheel"])
def test_the_bytes_that_have_come_are_told(
    kind: str, index: Index, layout: CacheLayout, request: pytest.FixtureRequest
) -> None:
    """In order, up to the size of the archive; a line of progress hears them, and people are not told each."""
    chosen, phases, said = request.getfixturevalue(kind), [], list[str]()

    def phase(phase: Phase, done: int, total: int) -> None:
        phases.append((phase, done, total))

    fetch_pin(chosen, layout, offline=False, notify=as_text(said.append, phase), settings=index.settings)
    assert phases
    assert {phase for phase, _, _ in phases} == {Phase.FETCH}
    counts = [done for _, done, _ in phases]
    assert counts == sorted(counts)
    assert {total for _, _, total in phases} == {counts[-1]}
    assert said == [f"fetching {chosen.archive.file} from the package index"]


def test_a_tar_archive(index: Index, pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    assert standing(pin, layout).state is SourceState.MISSING
    folder = fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)
    assert folder == layout.sources / "p-1"
    assert files_of(folder) == FILES
    assert "fetching p-1.tar.gz" in notices.text
    assert standing(pin, layout, deep=True).state is SourceState.PRESENT
    assert not list(layout.tmp.glob("*"))
    asked = len(index.asked)
    assert fetch_pin(pin, layout, offline=True, notify=notices) == folder
    assert len(index.asked) == asked


def test_a_wheel_is_read_in_ranges(index: Index, wheel: Pin, layout: CacheLayout, notices: Notices) -> None:
    ballast = bytes(os.urandom(3 << 20))
    data = zip_of({"ballast": ballast, **FILES})
    index.files["p-1.whl"] = data
    folder = fetch_pin(pin_for(data, "p-1.whl", ""), layout, offline=False, notify=notices, settings=index.settings)
    assert files_of(folder) == FILES
    assert index.sent < len(data) / 4


def test_a_wheel_from_a_server_without_ranges(index: Index, wheel: Pin, layout: CacheLayout, notices: Notices) -> None:
    index.ranges = False
    assert files_of(fetch_pin(wheel, layout, offline=False, notify=notices, settings=index.settings)) == FILES
    assert not list(layout.tmp.glob("*"))


def test_a_wheel_of_another_length_is_refused(index: Index, layout: CacheLayout, notices: Notices) -> None:
    index.files["p-1.whl"] = WHEEL + b"x"
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin_for(WHEEL, "p-1.whl", ""), layout, offline=False, notify=notices, settings=index.settings)
    assert caught.value.code == "S103"
    assert nothing_left(layout)


def test_a_wheel_with_other_members_is_refused(index: Index, layout: CacheLayout, notices: Notices) -> None:
    other = zip_of({**OTHERS, **FILES, "include/a.h": b"#pragma twice"})
    wrong = pin_for(WHEEL, "p-1.whl", "")
    index.files["p-1.whl"] = other
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(
            replace(wrong, archive=replace(wrong.archive, bytes=len(other))),
            layout,
            offline=False,
            notify=notices,
            settings=index.settings,
        )
    assert caught.value.code == "S103"
    assert nothing_left(layout)


@pytest.mark.promise("Passwords in addresses are never printed, and `--offline` fetches nothing.")
def test_offline(pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin, layout, offline=True, notify=notices)
    error = caught.value
    assert (error.code, error.exit_code) == ("S101", ExitCode.ENVIRONMENT)
    assert error.where
    assert error.why
    assert "fmha sources fetch p" in (error.help or "")
    assert nothing_left(layout)


def broken(index: Index, how: str) -> PipSettings:
    settings = index.settings
    if how == "status":
        index.status = 503
    elif how == "cut":
        index.cut = 100
    elif how == "no file":
        index.files.clear()
    elif how == "changed":
        index.files["p-1.tar.gz"] = TAR[:-1] + bytes([TAR[-1] ^ 1])
    elif how == "longer":
        index.files["p-1.tar.gz"] = TAR + b"x"
    elif how == "refused":
        settings = replace(settings, indexes=("http://127.0.0.1:9/simple",))
    elif how == "no folder":
        settings = replace(settings, indexes=("file:///nonexistent/simple",))
    elif how == "no index":
        settings = replace(settings, no_index=True)
    return settings


CODES = {"changed": "S103", "longer": "S103"}


@pytest.mark.promise("A source is checked against its pin, and hostile archives are refused.")
@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("how", ["status", "cut", "no file", "changed", "longer", "refused", "no folder", "no index"])
def test_what_goes_wrong_is_said_and_leaves_nothing(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, how: str
) -> None:
    settings = broken(index, how)
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin, layout, offline=False, notify=notices, settings=settings)
    error = caught.value
    assert error.code == CODES.get(how, "S102")
    assert error.where == "p-1.tar.gz"
    assert error.why
    assert error.help
    assert nothing_left(layout)
    gc.collect()


def test_a_server_that_stalls(index: Index, pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    index.hold = threading.Event()
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin, layout, offline=False, notify=notices, settings=replace(index.settings, timeout=0.3))
    assert caught.value.code == "S102"
    assert nothing_left(layout)


def test_an_unsafe_archive_leaves_nothing(index: Index, layout: CacheLayout, notices: Notices) -> None:
    evil = tar_of({**FILES, "include/../../../evil": b"x"})
    index.files["p-1.tar.gz"] = evil
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin_for(evil), layout, offline=False, notify=notices, settings=index.settings)
    assert caught.value.code == "S104"
    assert nothing_left(layout)


def test_the_next_index_is_asked(index: Index, pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    settings = PipSettings(indexes=("http://127.0.0.1:9/simple",), extra=(index.url,), timeout=5, retries=0)
    assert fetch_pin(pin, layout, offline=False, notify=notices, settings=settings).is_dir()


def test_a_damaged_file_at_the_first_place_is_had_from_the_next(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "p-1.tar.gz").write_bytes(TAR[:-1] + b"?")
    settings = replace(index.settings, links=(str(tmp_path / "links"),))
    assert files_of(fetch_pin(pin, layout, offline=False, notify=notices, settings=settings)) == FILES


@pytest.mark.parametrize("form", ["links", "links page", "folder index", "file index", "plain folder"])
def test_places_on_this_machine(layout: CacheLayout, notices: Notices, tmp_path: Path, form: str) -> None:
    (tmp_path / "p").mkdir()
    page = tmp_path / "p" / "index.html"
    (tmp_path / "p" / "p-1.tar.gz").write_bytes(TAR)
    page.write_text('<a href="p-1.tar.gz#sha256=00">p-1.tar.gz</a>')
    settings = {
        "links": PipSettings(links=(str(tmp_path / "p"),), no_index=True),
        "links page": PipSettings(links=(page.as_uri(),), no_index=True),
        "folder index": PipSettings(indexes=(tmp_path.as_uri(),)),
        "file index": PipSettings(indexes=(str(tmp_path),)),
        "plain folder": PipSettings(indexes=(tmp_path.as_uri() + "/",)),
    }[form]
    if form == "plain folder":
        page.unlink()
    assert files_of(fetch_pin(pin_for(TAR), layout, offline=False, notify=notices, settings=settings)) == FILES


@pytest.mark.promise("Passwords in addresses are never printed, and `--offline` fetches nothing.")
def test_passwords_are_used_and_never_shown(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.password = "me:s3cr3t"
    good = replace(index.settings, indexes=(f"http://me:s3cr3t@{index.host}/simple",))
    bad = replace(index.settings, indexes=(f"http://me:wr0ng@{index.host}/simple?token=hidden",))
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin, layout, offline=False, notify=notices, settings=bad)
    shown = caught.value.render()
    assert "401" in shown
    assert not any(word in shown for word in ("wr0ng", "hidden"))
    index.cut = 5
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin, layout, offline=False, notify=notices, settings=good)
    assert "s3cr3t" not in caught.value.render() + notices.text
    index.cut = None
    assert fetch_pin(pin, layout, offline=False, notify=notices, settings=good).is_dir()


def test_netrc(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index.password = "me:s3cr3t"
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cr3t\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings).is_dir()


@pytest.mark.promise("A source is checked against its pin, and hostile archives are refused.")
@pytest.mark.parametrize("how", ["changed", "added", "removed", "link", "manifest", "whole"])
def test_a_damaged_source_is_noticed_and_fetched_again(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, how: str
) -> None:
    folder = fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)
    header = folder / "include" / "a.h"
    if how == "changed":
        header.write_bytes(b"#pragma evil\n")
    elif how == "added":
        (folder / "include" / "new.h").write_bytes(b"")
    elif how == "removed":
        header.unlink()
    elif how == "link":
        header.unlink()
        header.symlink_to("deep/b.h")
    elif how == "manifest":
        (folder / ".fmha-source.json").write_text("{}")
    else:
        other = fetch_pin(
            replace(pin_for(TAR), name="q"), layout, offline=False, notify=notices, settings=index.settings
        )
        (folder / ".fmha-source.json").write_text((other / ".fmha-source.json").read_text())
        header.write_bytes(b"x")
    found = standing(pin, layout)
    assert found.state is SourceState.DAMAGED
    assert found.faults
    with pytest.raises(EnvironmentProblem, match="damaged"):
        fetch_pin(pin, layout, offline=True, notify=notices)
    assert files_of(fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)) == FILES
    assert standing(pin, layout).state is SourceState.PRESENT


def test_what_python_compiles_is_no_damage(index: Index, pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    folder = fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)
    (folder / "include" / "__pycache__").mkdir()
    (folder / "include" / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert standing(pin, layout, deep=True).state is SourceState.PRESENT


def test_remove(index: Index, pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)
    assert remove(pin, layout)
    assert not remove(pin, layout)
    assert nothing_left(layout)


def test_two_at_once_fetch_once(index: Index, pin: Pin, layout: CacheLayout, notices: Notices) -> None:
    index.hold = threading.Event()
    found: list[Path] = []

    def fetch() -> None:
        found.append(fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings))

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 10
    while not any("waiting for the fetch of p" in notice.text for notice in notices.said):
        assert time.monotonic() < until, notices.text
        time.sleep(0.02)
    index.hold.set()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert sum(path.startswith("/files/") for path in index.asked) == 1


def test_another_process_was_quicker(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lock, both processes unpack; the later one uses what is already there."""
    real = store._move_away

    def slow(place: Path, at: CacheLayout) -> Path | None:
        away = real(place, at)
        monkeypatch.setattr(store, "_move_away", real)
        store._fetch(pin, at, notices, index.settings)
        return away

    monkeypatch.setattr(store, "_move_away", slow)
    assert files_of(fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)) == FILES


CHILD = """
import signal, sys
from fmha_cli.toolchain.cache.root import open_root
from pathlib import Path
from tests.sources.conftest import pin_for
from tests.sources.test_fetch import TAR
from fmha_cli.sources.pip_settings import PipSettings
from fmha_cli.sources.store import fetch_pin
settings = PipSettings(indexes=(sys.argv[2],), timeout=30)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits SIGINT ignored
fetch_pin(pin_for(TAR), open_root(Path(sys.argv[1])), offline=False, notify=print, settings=settings)
"""


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_fetch_that_is_killed_leaves_no_source(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, how: signal.Signals
) -> None:
    index.hold = threading.Event()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([p for p in sys.path if p])}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(layout.root), index.url], env=environment, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 30
    while not list(layout.tmp.glob("*/p-1.tar.gz")):
        assert time.monotonic() < until
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(how)
    assert child.wait(60) != 0
    assert not list(layout.sources.glob("*"))
    if how is signal.SIGINT:
        assert nothing_left(layout)
    index.hold.set()
    index.hold = None
    assert files_of(fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)) == FILES


def test_an_unknown_name(tmp_path: Path, notices: Notices) -> None:
    with pytest.raises(UsageError) as caught:
        fetch_source("amd-aitr", tmp_path / "cache", offline=True, notify=notices)
    assert caught.value.code == "S100"
    assert "amd-aiter" in (caught.value.help or "")


def test_a_full_disk(
    index: Index, pin: Pin, layout: CacheLayout, notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "unpack_tar", full)
    with pytest.raises(EnvironmentProblem) as caught:
        fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)
    assert caught.value.code == "B002"
    assert nothing_left(layout)
