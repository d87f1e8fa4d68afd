"""Finding a compiler that works and remembering it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp import toolchain as toolchain_module
from fmha_cli.toolchain.cpp.find import cpp_search, find_toolchain
from fmha_cli.toolchain.cpp.toolchain import CompilerCandidate, Toolchain, ToolchainKind, candidates
from fmha_cli.toolchain.notice import NoticeKind

REAL = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(REAL is None, reason="there is no g++ or clang++ on PATH")


@pytest.fixture(autouse=True)
def no_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exclude zig, which compiles its C++ runtime for half a minute on first use."""
    monkeypatch.setattr(toolchain_module, "zig_command", lambda: None)


@pytest.fixture
def counting(tmp_path: Path, script: Any) -> Callable[[str], Path]:
    """A wrapper around the real compiler that counts its starts and can report another version."""

    def make(name: str) -> Path:
        text = (
            "#!/bin/sh\n"
            f'echo "$*" >> "{tmp_path}/{name}.calls"\n'
            f'if [ "$1" = --version ] && [ -f "{tmp_path}/{name}.version" ]; then\n'
            f'    cat "{tmp_path}/{name}.version"; exit\n'
            "fi\n"
            f'exec "{REAL}" "$@"\n'
        )
        (tmp_path / "bin").mkdir(exist_ok=True)
        path: Path = script(tmp_path / "bin" / name, text)
        return path

    return make


def calls(tmp_path: Path, name: str) -> list[str]:
    path = tmp_path / f"{name}.calls"
    return path.read_text().splitlines() if path.exists() else []


def names(environ: dict[str, str]) -> list[tuple[str, str]]:
    return [(os.path.basename(c.argv0[0]), c.origin) for c in candidates(environ)]


def test_order_of_preference(tmp_path: Path, script: Any) -> None:
    for name in ("g++", "clang++", "c++", "mine", "other"):
        script(tmp_path / name, "#!/bin/sh\n")
    env = {"PATH": str(tmp_path), "FMHA_CXX": "mine", "CXX": f"{tmp_path}/other -m64"}
    assert names(env) == [
        ("mine", "FMHA_CXX"),
        ("other", "CXX"),
        ("g++", "PATH"),
        ("clang++", "PATH"),
        ("c++", "PATH"),
    ]
    assert [c.argv0 for c in candidates(env)][1] == (f"{tmp_path}/other", "-m64")
    assert [c.wished for c in candidates(env)] == [True, False, False, False, False]


def test_a_version_in_the_name_comes_last_and_the_newest_first(tmp_path: Path, script: Any) -> None:
    for name in ("clang++-14", "clang++-22", "g++-12", "c++"):
        script(tmp_path / name, f"#!/bin/sh\n# {name}\n")
    found = [name for name, _ in names({"PATH": str(tmp_path)})]
    assert found == ["c++", "g++-12", "clang++-22", "clang++-14"]


def test_two_names_of_one_program_are_one_candidate(tmp_path: Path, script: Any) -> None:
    script(tmp_path / "g++", "#!/bin/sh\n")
    (tmp_path / "c++").symlink_to(tmp_path / "g++")
    assert names({"PATH": str(tmp_path), "CXX": "c++"}) == [("c++", "CXX")]


def test_a_named_program_that_is_missing_is_a_candidate_not_found(tmp_path: Path) -> None:
    assert list(candidates({"PATH": str(tmp_path), "CXX": "nothing here"})) == [
        CompilerCandidate(("nothing", "here"), "CXX", found=False)
    ]


def test_odd_quotes_do_not_crash(tmp_path: Path) -> None:
    assert [c.argv0 for c in candidates({"PATH": str(tmp_path), "CXX": "it's"})] == [("it's",)]


@pytest.mark.promise("README: `pip install ziglang` provides one")
def test_zig_is_started_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    package = tmp_path / "ziglang"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ziglang", raising=False)
    (module_form,) = candidates({"PATH": str(tmp_path)})
    assert module_form.argv0 == (sys.executable, "-m", "ziglang", "c++")
    (package / "zig").write_text("")
    (candidate,) = candidates({"PATH": str(tmp_path)})
    assert candidate.argv0 == (str(package / "zig"), "c++")
    assert candidate.origin == toolchain_module.ZIG


def test_nothing_at_all_names_what_to_install(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        find_toolchain(cache.layout, environ={"PATH": str(tmp_path)})
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert "g++" in (caught.value.help or "")
    assert "clang++" in (caught.value.help or "")
    assert "pip install ziglang" in (caught.value.help or "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("exit 1", "does not answer --version"),
        ('[ "$1" = --version ] && echo fake 1 && exit; echo "x: error: no headers"; exit 1', "no headers"),
        (
            'case "$*" in *--version*) echo fake 1;; *-M*) echo "a.o: headers.cpp";; *probe.so*)'
            ' echo "error: no linker"; exit 1;; *) exit 1;; esac',
            "no linker",
        ),
        (
            'case "$*" in *--version*) echo fake 1;; *-M*) echo "a.o: headers.cpp";; *probe.so*)'
            " echo junk > probe.so;; *) exit 1;; esac",
            "cannot load",
        ),
    ],
)
def test_each_way_of_not_working_is_named(
    cache: Cache, tmp_path: Path, script: Any, notices: Any, body: str, reason: str
) -> None:
    path = script(tmp_path / "g++", f"#!/bin/sh\n{body}\n")
    with pytest.raises(EnvironmentProblem, match="no C\\+\\+ compiler works") as caught:
        find_toolchain(cache.layout, notices, {"PATH": str(tmp_path)})
    assert reason in (caught.value.why or "")
    assert str(path) in (caught.value.why or "")
    assert notices.kinds() == [NoticeKind.TOOLCHAIN]
    assert list(cache.layout.tmp.iterdir()) == []


def test_a_broken_fmha_cxx_ends_the_search(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="FMHA_CXX") as caught:
        find_toolchain(cache.layout, environ={"PATH": os.environ["PATH"], "FMHA_CXX": str(tmp_path / "no")})
    assert "no such program" in str(caught.value)


@needs_compiler
def test_a_broken_cxx_is_passed_over_aloud(cache: Cache, tmp_path: Path, notices: Any) -> None:
    env = {"PATH": os.environ["PATH"], "CXX": str(tmp_path / "no")}
    found = find_toolchain(cache.layout, notices, env)
    assert found.argv0 == (os.path.abspath(REAL or ""),)
    assert notices.kinds() == [NoticeKind.TOOLCHAIN]
    assert str(tmp_path / "no") in notices.said[0].text


@needs_compiler
def test_a_proven_native_compiler_starts_nothing(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"PATH": os.environ["PATH"]}
    first = find_toolchain(cache.layout, environ=env)
    assert first.kind in (ToolchainKind.GCC, ToolchainKind.CLANG)
    assert len(first.headers_digest) == 64

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", forbidden)
    assert find_toolchain(cache.layout, environ=env) == first


@needs_compiler
@pytest.mark.slow
@pytest.mark.ci
def test_a_wrapper_is_asked_for_its_version_and_proven_again_when_it_changed(
    cache: Cache, tmp_path: Path, counting: Callable[[str], Path]
) -> None:
    env = {"PATH": os.environ["PATH"], "FMHA_CXX": str(counting("wrapper"))}
    first = find_toolchain(cache.layout, environ=env)
    proofs = [call for call in calls(tmp_path, "wrapper") if "-o probe.so" in call]
    assert len(proofs) == 1
    assert find_toolchain(cache.layout, environ=env) == first
    assert [call for call in calls(tmp_path, "wrapper") if "-o probe.so" in call] == proofs
    (tmp_path / "wrapper.version").write_text("g++ 99.0\n")
    assert find_toolchain(cache.layout, environ=env).version.startswith("g++ 99.0")
    assert len([call for call in calls(tmp_path, "wrapper") if "-o probe.so" in call]) == 2


@needs_compiler
@pytest.mark.slow
@pytest.mark.ci
def test_a_touched_compiler_is_proven_again(cache: Cache, tmp_path: Path, counting: Callable[[str], Path]) -> None:
    path = counting("wrapper")
    env = {"PATH": os.environ["PATH"], "FMHA_CXX": str(path)}
    find_toolchain(cache.layout, environ=env)
    os.utime(path, ns=(1, 1))
    find_toolchain(cache.layout, environ=env)
    assert len([call for call in calls(tmp_path, "wrapper") if "-o probe.so" in call]) == 2


@needs_compiler
@pytest.mark.slow
@pytest.mark.ci
def test_a_changed_header_changes_the_toolchain(
    cache: Cache, tmp_path: Path, counting: Callable[[str], Path], script: Any
) -> None:
    """If a header that the kernels include is replaced, the compiler is the same but the key differs."""
    include = tmp_path / "include"
    include.mkdir()
    (include / "omp.h").write_text("#pragma once\n")
    path = script(tmp_path / "cxx", f'#!/bin/sh\nexec "{REAL}" -isystem "{include}" "$@"\n')
    env = {"PATH": os.environ["PATH"], "FMHA_CXX": str(path)}
    first = find_toolchain(cache.layout, environ=env)
    (include / "omp.h").write_text("#pragma once\n// changed\n")
    second = find_toolchain(cache.layout, environ=env)
    assert first.headers_digest != second.headers_digest
    assert (first.version, first.identity) == (second.version, second.identity)


@needs_compiler
def test_a_command_of_two_words(cache: Cache, tmp_path: Path, script: Any) -> None:
    launcher = script(tmp_path / "launcher", '#!/bin/sh\nexec "$@"\n')
    env = {"PATH": os.environ["PATH"], "FMHA_CXX": f"{launcher} {REAL}"}
    found = find_toolchain(cache.layout, environ=env)
    assert found.argv0 == (str(launcher), REAL)
    assert found.identity == f"{launcher} {REAL}"


@needs_compiler
def test_survey_tells_of_every_candidate(cache: Cache, tmp_path: Path, script: Any) -> None:
    broken = script(tmp_path / "clang++", "#!/bin/sh\nexit 1\n")
    search = cpp_search(cache.layout, environ={"PATH": str(tmp_path), "CXX": str(REAL)})
    findings = [search.examine(candidate) for candidate in search.candidates]
    assert [f.candidate.origin for f in findings] == ["CXX", "PATH"]
    assert findings[0].fault is None
    assert isinstance(findings[0].toolchain, Toolchain)
    assert findings[1].candidate.argv0 == (str(broken),)
    assert (findings[1].toolchain, findings[1].fault) == (None, "does not answer --version")


@needs_compiler
def test_a_memo_that_cannot_be_kept_is_said(cache: Cache, notices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fmha_cli.toolchain.proving.remember", full)
    find_toolchain(cache.layout, notices, {"PATH": os.environ["PATH"]})
    assert notices.kinds() == [NoticeKind.NOT_SAVED]


@pytest.mark.slow
def test_zig_for_real(cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, notices: Any) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.undo()
    found = find_toolchain(cache.layout, notices, {"PATH": str(tmp_path)})
    assert found.kind is ToolchainKind.ZIG
    assert NoticeKind.TOOLCHAIN in notices.kinds()
