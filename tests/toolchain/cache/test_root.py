"""The choice of the cache directory, and the directories that are refused."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import cache_root, open_root, temporary_root
from fmha_cli.toolchain.cache.store import Cache

ROOMS = [path.name for path in CacheLayout(Path("/x")).rooms]


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_precedence(tmp_path: Path) -> None:
    env = {"FMHA_CACHE_DIR": str(tmp_path / "a"), "XDG_CACHE_HOME": str(tmp_path / "b"), "HOME": str(tmp_path)}
    assert cache_root(tmp_path / "c", env) == tmp_path / "c"
    assert cache_root(None, env) == tmp_path / "a"
    assert cache_root(None, env | {"FMHA_CACHE_DIR": ""}) == tmp_path / "b" / "fmha"


def test_relative_paths_become_absolute_but_a_relative_xdg_is_ignored(tmp_path: Path) -> None:
    assert cache_root("here", {}) == Path.cwd() / "here"
    assert cache_root(None, {"FMHA_CACHE_DIR": "here"}) == Path.cwd() / "here"
    found = cache_root(None, {"XDG_CACHE_HOME": "here"})
    assert found.is_absolute()
    assert found != Path.cwd() / "here" / "fmha"


def test_the_platforms_directory_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = cache_root(None, {})
    assert found.name == "fmha"
    assert tmp_path in found.parents


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
def test_created_private_with_its_parents_whatever_the_umask(
    tmp_path: Path, umask: Callable[[int], int], mask: int
) -> None:
    umask(mask)
    root = tmp_path / "parent" / "cache"
    open_root(root)
    assert mode(root) == 0o700
    assert mode(root.parent) == 0o700


@pytest.mark.promise("A changed cache entry is built again, and a cache that others may write to is refused.")
@pytest.mark.parametrize("bits", [0o777, 0o770, 0o720, 0o702, 0o722])
def test_writable_by_others_is_refused(tmp_path: Path, bits: int) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(bits)
    with pytest.raises(EnvironmentProblem) as caught:
        Cache(root)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert f"{bits:04o}" in (caught.value.why or "")
    assert "chmod 700" in (caught.value.help or "")


@pytest.mark.parametrize("bits", [0o700, 0o750, 0o755])
def test_readable_by_others_is_accepted(tmp_path: Path, bits: int) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(bits)
    assert Cache(root).layout.root == root


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_that_others_may_write_to_is_refused(tmp_path: Path, room: str) -> None:
    root = tmp_path / "cache"
    root.mkdir(0o755)
    (root / room).mkdir()
    (root / room).chmod(0o777)
    with pytest.raises(EnvironmentProblem, match="not safe"):
        open_root(root)


def test_a_room_that_is_a_file_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    root.mkdir(0o700)
    (root / "v2").write_text("")
    (root / "v2").chmod(0o600)
    with pytest.raises(EnvironmentProblem) as caught:
        open_root(root)
    assert caught.value.why == "it is not a directory"


def test_a_link_to_an_unsafe_directory_is_refused_and_to_a_safe_one_accepted(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir(0o700)
    link.symlink_to(target)
    assert open_root(link).root == link
    target.chmod(0o777)
    with pytest.raises(EnvironmentProblem, match="not safe"):
        open_root(link)


@pytest.mark.parametrize("create", [True, False])
def test_a_dangling_link_and_a_file_are_refused(tmp_path: Path, create: bool) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem):
        open_root(tmp_path / "file", create=create)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    if create:
        with pytest.raises(EnvironmentProblem):
            open_root(tmp_path / "link")


def test_without_create_nothing_is_made(tmp_path: Path) -> None:
    open_root(tmp_path / "cache", create=False)
    assert not (tmp_path / "cache").exists()


def test_an_impossible_place_is_an_environment_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem) as caught:
        open_root(tmp_path / "file" / "below")
    assert caught.value.help


def test_a_root_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    root.mkdir(0o700)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(EnvironmentProblem, match="not safe") as caught:
        open_root(root)
    assert f"uid {mine}" in (caught.value.why or "")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


@needs_root
@pytest.mark.parametrize("room", ["", *ROOMS])
def test_really_given_away(tmp_path: Path, room: str) -> None:
    root = tmp_path / "cache"
    (root / room).mkdir(0o700, parents=True)
    os.chown(root / room, 12345, -1)
    with pytest.raises(EnvironmentProblem, match="not safe") as caught:
        open_root(root)
    assert "uid 12345" in (caught.value.why or "")


@needs_root
def test_a_link_that_somebody_else_owns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    os.lchown(link, 12345, -1)
    with pytest.raises(EnvironmentProblem, match="not safe") as caught:
        open_root(link)
    assert "symlink" in (caught.value.why or "")


@needs_root
def test_another_user_is_refused_for_real(tmp_path: Path, child: Callable[..., subprocess.Popen[str]]) -> None:
    """A real process of uid 12345 refuses root's cache directory."""
    (tmp_path / "cache").mkdir(0o755)
    tmp_path.chmod(0o755)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from fmha_cli.toolchain.cache.store import Cache\n"
        "from fmha_cli.domain.errors import FmhaError\n"
        "os.chdir(sys.argv[1]); os.setuid(12345)\n"
        "try:\n"
        "    Cache(Path('cache'))\n"
        "except FmhaError as error:\n"
        "    print(int(error.exit_code), error.why)\n"
    )
    output, _ = child(code, str(tmp_path)).communicate()
    assert output.startswith("4 it belongs to uid 0"), output


@pytest.mark.parametrize("made", [False, True])
def test_a_home_that_cannot_be_written_gets_a_temporary_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    home = tmp_path / "xdg"
    (home / "fmha").mkdir(parents=True) if made else home.mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(home)) and allowed(path, mode))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    environ = {"XDG_CACHE_HOME": str(home)}
    assert cache_root(environ=environ) == temporary_root() == tmp_path / "tmp" / f"fmha-cache-{os.geteuid()}"
    assert mode(open_root(cache_root(environ=environ)).root) == 0o700
    named = {**environ, "FMHA_CACHE_DIR": str(home / "mine")}
    assert cache_root(environ=named) == home / "mine", "a place that the user names is never replaced"
    assert cache_root(home / "mine", environ) == home / "mine"


def test_the_temporary_cache_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary_root().mkdir(mode=0o777)
    temporary_root().chmod(0o777)
    with pytest.raises(EnvironmentProblem) as caught:
        open_root(temporary_root())
    assert caught.value.code == "B001"
