"""``.ci/run`` runs README's commands on what a fresh machine has, and loses no test by that."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import passed_tests
from tools.passed_tests import name_of, passed, skipped

ROOT = Path(__file__).resolve().parents[1]
RUN = (ROOT / ".ci" / "run").read_text("utf-8")
FRESH = ROOT / ".ci" / "fresh"
NEEDED = re.findall(r"\bneed (\S+) ", RUN.partition("need() {")[2].partition("}")[2])
"""The commands that the stages look for, and install where they are missing."""
ALREADY = {"g++", "git"}
LATER = [
    *(name for name in NEEDED if name not in ALREADY),
    *(f"{tool}-{n}" for n in (19, 22) for tool in ("clang++", "ld.lld")),
]
OTHERS = [
    "llvm-objdump-22",
    "clang-offload-bundler-22",
    "clang",
    "nvcc",
    "hipcc",
    "zig",
    "wine64",
    "aarch64-linux-gnu-objdump",
]


def program(path: Path, text: str = "#!/bin/sh\necho here\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a machine that has what later stages install."""
    tools = tmp_path_factory.mktemp("machine") / "tools"
    for name in (*LATER, *OTHERS):
        program(tools / name)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def fresh(machine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of that machine as README's commands see it. It links some thousand programs."""
    folder = tmp_path_factory.mktemp("machine") / "fresh"
    subprocess.run([FRESH, folder], env=machine, check=True, timeout=120)
    return {**machine, "PATH": str(folder)}


@pytest.mark.slow
@pytest.mark.ci
def test_tools_of_later_stages_are_hidden(fresh: dict[str, str]) -> None:
    assert len(LATER) >= 9, NEEDED
    seen = [name for name in (*LATER, *OTHERS) if shutil.which(name, path=fresh["PATH"])]
    assert seen == []
    assert [name for name in ("python3", "git", "sh", "env") if not shutil.which(name, path=fresh["PATH"])] == []
    compiler = shutil.which("g++")
    assert compiler is None or shutil.which("g++", path=fresh["PATH"])
    said = subprocess.run(
        ["python3", "-c", "import json, sys; print(sys.version)"], env=fresh, capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("3.")


@pytest.mark.slow
@pytest.mark.ci
def test_a_planted_need_fails_on_a_fresh_machine(
    machine: dict[str, str], fresh: dict[str, str], tmp_path: Path
) -> None:
    """A test that calls what only a later stage installs passes where it is, and fails README's command."""
    for n, tool in enumerate(LATER):
        lines = [
            "import subprocess",
            f"def test_it_{n}() -> None:",
            f"    assert subprocess.check_output(['{tool}']) == b'here\\n'",
        ]
        (tmp_path / f"test_planted_{n}.py").write_text("\n".join(lines), "utf-8")
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    for env, code, count in ((machine, 0, f"{len(LATER)} passed"), (fresh, 1, f"{len(LATER)} failed")):
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert (done.returncode, count in done.stdout) == (code, True), done.stdout


def test_readme_comes_first_and_tools_later() -> None:
    """Nothing but g++ and git is installed before README's commands, and its tests' report is what the later stage reads."""
    stages = re.findall(r'^stage "[^"]+" (.+)$|^(export PATH=.+)$', RUN, re.MULTILINE)
    order = [call or export for call, export in stages]
    tests = order.index("run_in_new_environment 2")
    assert order[: tests + 1] == [
        "need g++ g++",
        "need git git",
        "fresh_machine",
        "run_in_new_environment 1",
        "run_in_new_environment 2",
    ]
    assert order[tests + 1] == 'export PATH="$all_tools"'
    later = order[tests + 2 :]
    assert set(NEEDED) - ALREADY == {"qemu-aarch64", "aarch64-linux-gnu-g++-12", "g++-11", "chromium", "chromedriver"}
    for stage in ("hip_compiler", "arm_tools", "oldest_compiler", "browser"):
        assert later.index(stage) < later.index("compiled")
    assert '--again="$reports/readme.xml"' in RUN


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of three tests: one lacks a tool, one lacks it with its whole file, one passes."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "tests").mkdir()
    wanted = "import os, pytest\nwanted = pytest.mark.skipif('TOOL' not in os.environ, reason='no tool')\n"
    (tmp_path / "tests" / "test_one.py").write_text(
        wanted
        + "@wanted\n@pytest.mark.parametrize('x', ['a/b', 'c::d'])\ndef test_tool(x): ...\ndef test_plain(): ...\n",
        "utf-8",
    )
    (tmp_path / "tests" / "test_two.py").write_text(
        "import os, pytest\nif 'TOOL' not in os.environ:\n    pytest.skip('no tool', allow_module_level=True)\ndef test_it(): ...\n",
        "utf-8",
    )
    (tmp_path / "tests" / "test_three.py").write_text(
        "import pytest\n@pytest.mark.slow\n@pytest.mark.ci\ndef test_long(): ...\n@pytest.mark.slow\ndef test_longer(): ...\n",
        "utf-8",
    )
    return tmp_path


def pytest_in(tree: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--rootdir", tree, *words, "tests"]
    env = {**os.environ, **variables}
    return subprocess.run(
        [*map(str, argv)], cwd=tree, env=env, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
@pytest.mark.ci
def test_what_was_skipped_runs_again_and_nothing_is_lost(tree: Path) -> None:
    whole = pytest_in(tree, "--junitxml=whole.xml", "-m", "not slow or ci", TOOL="1")
    first = pytest_in(tree, PYTEST_ADDOPTS="--junitxml=readme.xml")
    then = pytest_in(tree, "--junitxml=ci.xml", "-m", "ci", "--again=readme.xml", TOOL="1")
    assert [done.returncode for done in (whole, first, then)] == [0, 0, 0], first.stdout + then.stdout
    before = passed([tree / "whole.xml"])
    assert len(before) == 5
    assert passed([tree / "readme.xml"]) == {"tests.test_one::test_plain"}
    assert passed([tree / "ci.xml"]) == before - {"tests.test_one::test_plain"}
    assert lost(tree, "whole.xml", "readme.xml", "ci.xml") == (
        0,
        "5 tests passed before, 5 after; 0 are new, 0 are lost\n",
    )
    code, said = lost(tree, "whole.xml", "readme.xml")
    assert (code, said.splitlines()[0]) == (1, "5 tests passed before, 1 after; 0 are new, 4 are lost")
    assert "tests.test_two::test_it" in said.splitlines()


def lost(folder: Path, before: str, *after: str) -> tuple[int, str]:
    argv = [
        sys.executable,
        passed_tests.__file__,
        "--before",
        folder / before,
        "--after",
        *(name if name.startswith("--") else folder / name for name in after),
    ]
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def reported(path: Path, *names: str) -> None:
    """A report in which these tests passed."""
    cases = [name.partition("::") for name in names]
    text = "".join(f'<testcase classname="{file}" name="{test}"/>' for file, _, test in cases)
    path.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>", "utf-8")


TABLE = """
tests/test_fa_it.py\ttests/fa/test_it.py\tpackages
tests/fa/test_it.py::test_sum[*]\ttests/fa/test_it.py::test_sums\tone test names each case
tests/test_b.py::test_old[*-x]\ttests/test_b.py::test_new[x-*]\trenamed
tests/test_c.py::test_page\t-\tits page is generated now
"""
BEFORE = (
    "tests.test_fa_it::test_sum[1]",
    "tests.test_fa_it::test_sum[2]",
    "tests.test_fa_it.TestIt::test_a[x]",
    "tests.test_b::test_old[3-x]",
    "tests.test_b::test_older",
    "tests.test_c::test_page[1]",
    "tests.test_fa_items::test_a",
)
AFTER = (
    "tests.fa.test_it::test_sums",
    "tests.fa.test_it.TestIt::test_a[x]",
    "tests.test_b::test_new[x-3]",
    "tests.test_b::test_older",
    "tests.test_fa_items::test_a",
)


def test_a_table_says_where_tests_went(tmp_path: Path) -> None:
    reported(tmp_path / "before.xml", *BEFORE)
    reported(tmp_path / "after.xml", *AFTER)
    (tmp_path / "moved.tsv").write_text(TABLE, "utf-8")

    def compare() -> tuple[int, list[str]]:
        code, said = lost(tmp_path, "before.xml", "after.xml", "--moved", str(tmp_path / "moved.tsv"))
        return code, said.splitlines()

    assert compare() == (0, ["7 tests passed before, 5 after; 0 are new, 0 are lost, 1 are gone for a reason"])
    for absent, names in ((0, list(BEFORE[:2])), (2, [BEFORE[3]]), (4, [BEFORE[6]])):
        reported(tmp_path / "after.xml", *AFTER[:absent], *AFTER[absent + 1 :])
        code, (_, *said) = compare()
        assert (code, said) == (1, sorted(names)), AFTER[absent]
    reported(tmp_path / "after.xml", *AFTER)
    for row in TABLE.strip().splitlines():
        (tmp_path / "moved.tsv").write_text(TABLE.replace(row, ""), "utf-8")
        assert compare()[0] == 1, row


@pytest.mark.parametrize(
    "row", ["tests/a.py", "tests/a.py\ttests/b.py", "tests/a.py\t-\t", "tests/a.py tests/b.py why"]
)
def test_a_row_without_a_reason_is_exit_2(row: str, tmp_path: Path) -> None:
    reported(tmp_path / "a.xml", *AFTER)
    (tmp_path / "moved.tsv").write_text(row, "utf-8")
    assert lost(tmp_path, "a.xml", "a.xml", "--moved", str(tmp_path / "moved.tsv"))[0] == 2


def test_a_report_that_cannot_be_read_is_exit_2(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<testsuites>", "utf-8")
    assert lost(tmp_path, "a.xml", "a.xml")[0] == 2
    assert lost(tmp_path, "none.xml", "a.xml")[0] == 2


def test_outcomes(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="ok"/><testcase classname="tests.a" name="bad"><failure/></testcase>'
        '<testcase classname="tests.a" name="none"><skipped/></testcase><testcase classname="" name="tests.b"><skipped/></testcase>'
        '<testcase classname="tests.a" name="broken"><error/></testcase></testsuite></testsuites>',
        "utf-8",
    )
    assert passed([tmp_path / "a.xml"]) == {"tests.a::ok"}
    assert skipped(tmp_path / "a.xml") == {"tests.a::none", "tests.b"}
    assert name_of("tests/cli/test_app.py::test_it[a/b.py::c]") == "tests.cli.test_app::test_it[a/b.py::c]"
    assert name_of("tests/cli/test_app.py") == "tests.cli.test_app"


@pytest.mark.slow
@pytest.mark.ci
def test_some_tests_are_always_the_same(tree: Path) -> None:
    def names(count: int) -> list[str]:
        done = pytest_in(tree, "--collect-only", "--some", str(count), TOOL="1")
        return [line for line in done.stdout.splitlines() if "::" in line]

    two = names(2)
    assert len(two) == 2
    assert names(2) == two
    every = names(100)
    assert set(two) < set(every)
    assert len(every) == 4


@pytest.mark.slow
@pytest.mark.ci
def test_the_level_of_a_run_reaches_its_tests() -> None:
    """Tests see no variable of this tool but that one (``tests/acceptance/test_processors.py`` runs whole folders so)."""
    node = "tests/backends/cpu/test_backend.py::test_the_level_of_the_run_holds_in_tests"
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", node]
    env = {**os.environ, "FMHA_CPU_ARCH": "generic"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_no_test_looks_for_a_program_in_a_fixed_place() -> None:
    """``.ci/fresh`` hides what PATH finds."""
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for root in ("tests", "plugins", "benchmarks", "fmha_cli")
        for path in (ROOT / root).rglob("*.py")
        if path != Path(__file__)
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"/usr/lib/llvm|/usr/local/bin/|/usr/bin/(clang|aarch64|qemu|chrom|g\+\+-11|zig)", line)
    ]
    assert [line for line in found if "/usr/local/bin/g++" not in line] == []


def test_the_stages_are_a_script_that_bash_reads() -> None:
    for script in (FRESH, ROOT / ".ci" / "run"):
        subprocess.run(["bash", "-n", shlex.quote(str(script))], check=True)
