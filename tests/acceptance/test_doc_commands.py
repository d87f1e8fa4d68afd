"""Every command that README and the pages of ``docs/`` show works as shown; README's Python examples too."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served

from acceptance.doc_commands import How, Shown, Suite, blocks_of, normalised, pages, shown_in, table
from acceptance.processes import CHECKOUT, environment, two_kernels
from fmha_cli import api

SHOWN = [one for page in pages() for one in shown_in(page)]
TABLE = table()
README = blocks_of((CHECKOUT / "README.md").read_text("utf-8"))
DEFAULT = [how for how in TABLE.values() if how.suite is Suite.DEFAULT]
SCRIPTS = [text for language, text in README if language == "python"]
OUTPUTS = [one for one in SHOWN if one.output is not None]
LACKING = ("error[S10", "error[B03", "error[B05", "no sources", "is not installed", "= help: pip install 'fmha[")
"""Words of a machine that lacks sources, a compiler, a package or an extra. A slow command is skipped there."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder for all commands of a page, with ``fmha`` on the search path beside it."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bin").mkdir()
    (folder / "work").mkdir()
    for name, words in (("fmha", "-m fmha_cli"), ("python", "")):
        shim = folder / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n', "utf-8")
        shim.chmod(0o755)
    return folder / "work"


@pytest.fixture(scope="module")
def served(work: Path) -> Iterator[Served]:
    """Carries out commands in the same folder; only the first one pays for the start of a process."""
    one = Served(work, 600.0)
    yield one
    one.close()


def executed(line: str, work: Path) -> subprocess.CompletedProcess[str]:
    """Run a line by the shell: stdout and stderr in one text."""
    env = environment()
    env["PATH"] = f"{work.parent / 'bin'}:{env['PATH']}"
    return subprocess.run(
        ["bash", "-ec", line],
        cwd=work,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def carried_out(how: How, work: Path) -> subprocess.CompletedProcess[str]:
    """Run a command by the shell."""
    line = how.line
    if "FIRST" in line:
        for name, digest in two_kernels(api.Problem.of(seqlen=4096)).items():
            line = line.replace(name, digest)
    done = executed(line, work)
    assert "Traceback" not in done.stdout, done.stdout
    return done


def test_every_command_is_in_the_table_and_the_table_has_no_other() -> None:
    assert {one.text for one in SHOWN} == set(TABLE)
    assert len(SHOWN) > 50


def test_blocks_and_stray_commands_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acceptance.doc_commands.CHECKOUT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```bash\nfmha a   # why\nfmha b \\\n  --c\n```\n\n```console\n$ fmha d\none\n$ fmha e\n```\n")
    found = [(one.text, one.output) for one in shown_in(page)]
    assert found == [("fmha a", None), ("fmha b    --c", None), ("fmha d", "one\n"), ("fmha e", "")]
    for text in ("```\nfmha a\n```\n", "```sh\nfmha a\n```\n", "text\n\n    fmha a\n", "    X=1 python b\n"):
        page.write_text(text)
        with pytest.raises(ValueError, match=r"^page\.md: a "):
            list(shown_in(page))
    with pytest.raises(ValueError, match="why"):
        How("fmha", Suite.SLOW)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("how", DEFAULT, ids=lambda how: how.text)
def test_a_command(how: How, work: Path, served: Served) -> None:
    """Only a line that needs a shell has one here. The slow suite runs each in a process of its own."""
    if how.argv is None:
        done = carried_out(how, work)
        assert done.returncode in how.codes, done.stdout
    else:
        answer = served.run(how.argv)
        assert answer.fault() is None, answer
        assert answer.code in how.codes, answer


@pytest.mark.slow
@pytest.mark.parametrize("how", [how for how in DEFAULT if how.argv is not None], ids=lambda how: how.text)
def test_a_command_by_the_shell(how: How, work: Path) -> None:
    done = carried_out(how, work)
    assert done.returncode in how.codes, done.stdout


def test_what_needs_a_shell_has_one() -> None:
    lines = ("fmha a --b c:d,1", "fmha a 'b c'", "fmha a | less", "fmha a > b", "X=1 fmha a", "python -m fmha_cli")
    assert [How(line).argv for line in lines] == [["a", "--b", "c:d,1"], *[None] * 5]
    assert How("fmha a", before="fmha b").argv is None
    assert How("fmha X", words={"X": "y"}, add="--z", why="time").argv == ["y", "--z"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("how", [how for how in TABLE.values() if how.suite is Suite.SLOW], ids=lambda how: how.text)
def test_a_command_that_takes_minutes(how: How, work: Path) -> None:
    done = carried_out(how, work)
    if done.returncode == 4 and any(words in done.stdout for words in LACKING):
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode in how.codes, done.stdout


@pytest.mark.parametrize("one", OUTPUTS, ids=lambda one: one.text)
def test_an_output_is_as_shown(one: Shown, work: Path) -> None:
    assert one.output is not None
    assert normalised(carried_out(TABLE[one.text], work).stdout) == normalised(one.output)


def test_readme_begins_with_the_main_job_and_the_tests() -> None:
    """``.ci/run`` runs both blocks unchanged in new environments."""
    main_job, tests = (text.strip() for _, text in README[:2])
    assert README[0][0] == README[1][0] == "bash", "they come first"
    assert main_job == "pip install . && fmha run --batch 2 --seqlen 4096 --hdim 128 --causal"
    install, *rest = tests.split(" && ")
    assert install == 'pip install -e ".[test]"'
    assert rest[-1].startswith("python -m pytest")


def test_the_python_example(work: Path) -> None:
    done = executed(shlex.join(["python", "-c", SCRIPTS[0]]), work)
    assert done.returncode == 0, done.stdout
    verdict, chosen, count = done.stdout.splitlines()
    assert verdict.split()[0] == "PASSED"
    assert len(chosen) == 64
    assert int(count) > 0


def test_the_python_example_on_arrays(work: Path) -> None:
    done = executed(shlex.join(["python", "-c", SCRIPTS[1]]), work)
    assert done.stdout == "PASSED (1, 8, 256, 64) (1, 8, 256)\n"
    assert len(SCRIPTS) == 2
