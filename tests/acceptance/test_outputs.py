"""The outputs that README and the pages of ``docs/`` show equal what the commands print."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fmha_cli.bench.conditions import Ceiling
from fmha_cli.bench.roofline import Bound
from fmha_cli.bench.sampling import sanity_notes
from tools.outputs import check, normalise, printed, tail, write
from tools.pages import ROOT, How, pages, shown_in, table

WITH_OUTPUT = [page for page in pages() if any(one.output is not None for one in shown_in(page))]
ONE = "# A\n\n```bash\necho 4 rows; echo 'time 7.25 ms, kernel 1a2b3c4d5e'\n```\n\n```text\n{}```\n\nMore.\n"
LINE = "echo 4 rows; echo 'time 7.25 ms, kernel 1a2b3c4d5e'"
TODAY = "4 rows\ntime 7.25 ms, kernel 1a2b3c4d5e\n"


@pytest.mark.promise(
    "README: finds, builds and runs the kernel for your problem, and checks every number against a float64 reference",
    "Every command that a page shows works as shown.",
    "Configuration files and outputs are as the pages show them.",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("page", WITH_OUTPUT, ids=lambda page: str(page.relative_to(ROOT)))
def test_outputs_are_as_shown(page: Path) -> None:
    assert check(page, table()) == []


def test_the_pages_that_newcomers_read_show_outputs() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "tutorial.md"} <= set(WITH_OUTPUT)


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (TODAY, False),
        ("4  rows\ntime  913 us, kernel 99ffee00\n", False),
        ("5 rows\ntime 7.25 ms, kernel 1a2b3c4d5e\n", True),
        ("4 rows\ntime 7.25 ms, kernels 1a2b3c4d5e\n", True),
        ("4 rows\n", True),
        ("", True),
    ],
)
def test_a_planted_drift_is_found(tmp_path: Path, planted: str, found: bool) -> None:
    page = tmp_path / "page.md"
    page.write_text(ONE.format(planted), "utf-8")
    differences = check(page, {LINE: How(LINE)}, tmp_path)
    assert bool(differences) is found
    assert all("page.md: echo 4 rows" in text for text in differences)


def test_writing_makes_the_page_right(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(ONE.format("old\n"), "utf-8")
    write(page, {LINE: How(LINE)}, tmp_path)
    assert page.read_text("utf-8") == ONE.format(TODAY)


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\nfalse\n```\n\n```text\n```\n", "utf-8")
    with pytest.raises(RuntimeError, match=r"page\.md: false: exit code 1"):
        list(printed(page, {"false": How("false")}, tmp_path))


def test_a_planted_drift_fails_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Successfully installed fmha\n1 failed, 3 passed in 1.2s\n", "utf-8")
    words = [sys.executable, "-m", "tools.outputs", "tail", "README.md", "2", str(log)]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode, "+N failed" in done.stdout or "+1 failed" in done.stdout) == (1, True), done


def test_the_end_of_a_log_is_compared() -> None:
    readme = ROOT / "README.md"
    shown = [one.output for one in shown_in(readme) if one.output is not None]
    assert tail(readme, 2, f"Collecting pip\n{shown[1]}") is None
    assert tail(readme, 1, f"Collecting pip\n{shown[0]}") is None
    assert tail(readme, 2, "12 failed, 3 passed in 1.2s\n") is not None


def test_what_differs_between_machines_is_normalised() -> None:
    here = """batch 1, fp16, causal, cpu, x86_64_v4_bf16,
  kernel 776535ce, hot cache
#  verdict    time [ms]  peak [%]  error (of budget)
-  -------  -----------  --------  -----------------
1  PASSED   NOISY 1.071       9.66    o 2.6e-08 (22%)
  1: 11 of 50 samples are outliers (slowest 10.6x the median)
  NOISY: fewer than 6 samples, or an interval wider than 10% of the median
1 row: 1 PASSED
"""
    there = """batch 1, fp16, causal, cpu, x86_64_v3, kernel 00aa11bb, hot cache
#  verdict  time [us]  peak [%]  error (of budget)
-  -------  ---------  --------  -----------------
1  PASSED         987       101  o 3.6e-08 (24%)
1 row: 1 PASSED
"""
    assert normalise(here) == normalise(there)
    assert normalise(here) != normalise(there.replace("PASSED  ", "WRONG   "))
    assert normalise("run, launch, 10 s: -b 2 -s 4096 --causal\n1 row\n") == "1 row"
    noisy = [
        *sanity_notes([100, 101, 99] * 10 + [900]),
        *sanity_notes([100, 101, 99] * 10 + [900, 950]),
        *sanity_notes([100, 101, 99] * 10 + [200, 201, 199] * 10),
        *Ceiling(bound=Bound.MEMORY, before=1e9, after=2e9).notes,
    ]
    assert len(noisy) == 4
    for note in noisy:
        lines = there.splitlines(keepends=True)
        folded = textwrap.fill(f"  1: {note}", 80, subsequent_indent="    ")
        assert normalise("".join([*lines[:-1], f"{folded}\n", lines[-1]])) == normalise(there), note
    progress = (
        "run, build, 1 min 10 s\n",
        "run, build, 1 min 20 s: -b 2 -s 4096 --causal\n",
        "run, reference 8 %, 2 min 31 s, about 1 min 43 s left: -b 2 -s 4096 --causal\n",
        "sweep: 9/12 rows, 55.5 rows/min, 10 s, about 3 s left\n",
        "measuring the settings of x86_64_v4_bf16 776535ce on this machine, once\n    (--no-probe skips this)\n",
    )
    assert normalise("".join(progress)) == ""
    measured = "   1.02 ms    1.00 ms  0.986 [0.520,1.064]    nothing  UNSURE (the machine moved\n                        by 2 %)\n1 row: 1 unsure\n"
    assert normalise(measured) == normalise("  987 us  964 us  0.977 [0.455,1.815]   3 %  SAME\n1 row: 1 same\n")
    suspicious = "1 suspicious row: --run 'CMD' --run 'CMD' runs them again\n    in turns\n"
    assert normalise(measured + suspicious) == normalise(measured)
    worst = "1  -  PASSED  o 6.3e-08 (28%)  large (b=0, h=0, i=247) d=26, element\n      limit\n"
    assert normalise(worst) == normalise("1 - PASSED o 6.1e-08 (27%) ties (b=1, h=7, i=1) d=2, rms limit\n")
