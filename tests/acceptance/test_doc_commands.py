"""Every command that README and the pages of ``docs/`` show works as shown; README's two first commands and its form."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fmha_cli import api
from tests.support.processes import two_kernels
from tests.support.served import Served
from tools.outputs import WALKS, Room
from tools.pages import ROOT, How, Suite, blocks_of, pages, shown_in, table

SHOWN = [one for page in pages() for one in shown_in(page) if not one.script]
TABLE = table()
README = (ROOT / "README.md").read_text("utf-8")
WALKED = {one.text for one in SHOWN if one.page in WALKS}
"""What ``test_outputs.py`` runs."""
DEFAULT = [how for how in TABLE.values() if how.suite is Suite.DEFAULT and how.text not in WALKED]
LACKING = ("error[S10", "error[B03", "error[B05", "no sources", "is not installed", "= help: pip install 'fmha[")
"""Words of a machine that lacks sources, a compiler, a package or an extra. A slow command is skipped there."""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """One place for all commands, with ``fmha`` on the search path."""
    return Room.made(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def served(room: Room) -> Iterator[Served]:
    """Runs commands in the same folder; only the first one pays for the start of a process."""
    one = Served(room.work, 600.0)
    yield one
    one.close()


def carried_out(how: How, room: Room) -> subprocess.CompletedProcess[str]:
    """Run a command by the shell."""
    line = how.line
    if "FIRST" in line:
        for name, digest in two_kernels(api.Problem.of(seqlen=4096)).items():
            line = line.replace(name, digest)
    done = room.run(line)
    assert "Traceback" not in done.stdout, done.stdout
    return done


@pytest.mark.promise("Every command that a page shows works as shown.")
def test_every_command_is_in_the_table_and_the_table_has_no_other() -> None:
    assert {one.text for one in SHOWN} == set(TABLE)
    assert len(SHOWN) > 50


def test_blocks_and_stray_commands_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\nfmha a   # why\nfmha b \\\n  --c\n```\n\n```console\n$ fmha d\none\n$ fmha e\n```\n")
    found = [(one.text, one.output) for one in shown_in(page, tmp_path)]
    assert found == [("fmha a", None), ("fmha b    --c", None), ("fmha d", "one\n"), ("fmha e", "")]
    page.write_text(
        "```bash\nfmha a\nfmha b\n```\n\n```text\nof b\n```\n\n```bash\nfmha c\n```\nSo:\n```text\nd\n```\n"
    )
    found = [(one.text, one.output) for one in shown_in(page, tmp_path)]
    assert found == [("fmha a", None), ("fmha b", "of b\n"), ("fmha c", None)]
    for text in ("```\nfmha a\n```\n", "```sh\nfmha a\n```\n", "text\n\n    fmha a\n", "    X=1 python b\n"):
        page.write_text(text)
        with pytest.raises(ValueError, match=r"^page\.md: a "):
            list(shown_in(page, tmp_path))
    with pytest.raises(ValueError, match="why"):
        How("fmha", Suite.SLOW)


@pytest.mark.promise(
    "Every command that a page shows works as shown.", "`list-kernels` lists the kernels of an architecture."
)
@pytest.mark.sampled(5, ci=25)
@pytest.mark.parametrize("how", DEFAULT, ids=lambda how: how.text)
def test_a_command(how: How, room: Room, served: Served) -> None:
    """Only a line that needs a shell has one here. The slow suite runs each in a process of its own."""
    if how.argv is None:
        done = carried_out(how, room)
        assert done.returncode in how.codes, done.stdout
    else:
        answer = served.run(how.argv)
        assert answer.fault() is None, answer
        assert answer.code in how.codes, answer


@pytest.mark.slow
@pytest.mark.parametrize("how", [how for how in DEFAULT if how.argv is not None], ids=lambda how: how.text)
def test_a_command_by_the_shell(how: How, room: Room) -> None:
    done = carried_out(how, room)
    assert done.returncode in how.codes, done.stdout


def test_what_needs_a_shell_has_one() -> None:
    lines = ("fmha a --b c:d,1", "fmha a 'b c'", "fmha a | less", "fmha a > b", "X=1 fmha a", "python -m fmha_cli")
    assert [How(line).argv for line in lines] == [["a", "--b", "c:d,1"], *[None] * 5]
    assert How("fmha a", before="fmha b").argv is None
    assert How("fmha X", words={"X": "y"}, add="--z", why="time").argv == ["y", "--z"]


@pytest.mark.promise("Every command that a page shows works as shown.")
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("how", [how for how in TABLE.values() if how.suite is Suite.SLOW], ids=lambda how: how.text)
def test_a_command_that_takes_minutes(how: How, room: Room) -> None:
    done = carried_out(how, room)
    if done.returncode == 4 and any(words in done.stdout for words in LACKING):
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode in how.codes, done.stdout


@pytest.mark.promise(
    "README: In a clone and a virtual environment:",
    "README: Run the tests, without a GPU:",
    "Every command that a page shows works as shown.",
)
def test_readme_begins_with_the_main_job_and_the_tests() -> None:
    """``.ci/run`` runs both blocks unchanged in new environments."""
    bash = [text.strip() for language, text in blocks_of(README) if language == "bash"]
    main_job, tests, *_ = bash
    assert [language for language, _ in blocks_of(README)[:4]] == ["bash", "text"] * 2, "they come first, with outputs"
    assert main_job == "pip install . && fmha run --batch 2 --seqlen 4096 --hdim 128 --causal"
    install, *rest = tests.split(" && ")
    assert install == 'pip install -e ".[test]"'
    assert rest[-1].startswith("python -m pytest")
