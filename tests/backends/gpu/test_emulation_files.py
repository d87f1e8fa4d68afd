"""The C++ that emulators share: complete, free of warnings, and byte for byte the JSON that reports have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fmha_cli.backends.gpu.emulation import emulation_files
from fmha_cli.domain.emulation import FindingKind
from fmha_cli.plugin import emulation_files as exported
from fmha_cli.plugin import read_report

MAIN = r"""
#include <cstdio>

#include "emu_found.hpp"
#include "emu_memory.hpp"
#include "emu_random.hpp"

enum class Kind : unsigned char { Race, Bounds };
const char* name_of(Kind kind) { return kind == Kind::Race ? "lds-race" : "out-of-bounds"; }

int main() {
  using namespace emulation;
  const std::vector<FoundOf<Kind>> found = {
      {Kind::Race, "k", "st \"x\"", "tab\there \\", 12, 3, -1, {1, 2, 3}, 7}, {Kind::Bounds, "k", "ld", "far", 1ull << 40, 0, 31, {0, 0, 0}, 1}};
  const Executed done{"k", 2, 30, {{"float", 10}, {"shared", 0}, {"global", 20}}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  report_line(observed_json({executed_json(done)}, "line 1: \"sad\"", to_json(found)));
  Executed counted = done;
  counted.kernel = "l", counted.global_sectors = 13;
  report_line(observed_json({executed_json(counted)}, "", to_json(std::vector<FoundOf<Kind>>())));
  report_line(observed_json({}, "", to_json(std::vector<FoundOf<Kind>>())));
  memory().allocated(0x1000, 0x100, "q");
  memory().allocated(0x2000, 0x100, "k");
  memory().name_regions(0x2000, {{0x2080, 0x20c0, "b", false}, {0x2010, 0x2040, "a", true}});
  for (const uint64_t at : {0xff0, 0x1000, 0x1100, 0x1110, 0x2000, 0x2090}) {
    const Range range = memory().around(at);
    std::printf("%llx-%llx %d %d %s\n", (unsigned long long)range.start, (unsigned long long)range.end, range.writable,
                int(memory().place(at, 16, true)), memory().nearest(at).c_str());
  }
  memory().freed(0x1000);
  std::puts(memory().nearest(0x1000).c_str());
  Random random{0};
  const uint64_t first = random.next();
  std::printf("%d %d %016llx\n", first == mixed(0), random.next() == mixed(kGolden), (unsigned long long)first);
}
"""
COUNTS = (
    r'{"executed":[{"kernel":"k","launches":2,"instructions":30,"classes":{"float":10,"global":20},"matrix_flops":1,'
    r'"global_read_bytes":2,"global_written_bytes":3,"scratch_read_bytes":4,"scratch_written_bytes":5,'
    r'"scalar_read_bytes":6,"lds_read_bytes":7,"lds_written_bytes":8,"lds_accesses":9,"lds_conflict_cycles":10,'
    r'"buffer_out_of_range":11,"barriers":12,"global_sectors":'
)
REPORT = (
    COUNTS + r'null}],"fault":"line 1: \"sad\"","findings":[{"kind":"lds-race","kernel":"k",'
    r'"instruction":"st \"x\"","text":"tab\u0009here \\","address":12,"wave":3,"lane":-1,"group":[1,2,3],"count":7},'
    r'{"kind":"out-of-bounds","kernel":"k","instruction":"ld","text":"far","address":1099511627776,"wave":0,"lane":31,'
    r'"group":[0,0,0],"count":1}]}'
    + "\n"
    + COUNTS.replace('"k"', '"l"')
    + r'13}],"fault":null,"findings":[]}'
    + "\n"
    + r'{"executed":[],"fault":null,"findings":[]}'
    + "\n"
)
"""What each emulator wrote before they shared the code."""
INSIDE, GUARD, OUTSIDE, READ_ONLY = range(4)
MEMORY = (
    f"1-0 0 {OUTSIDE} 16 bytes before the start of q (0x1000 to 0x1100)",
    f"1000-1100 1 {INSIDE} 0 bytes into q (0x1000 to 0x1100)",
    f"1-0 0 {OUTSIDE} at the end of q (0x1000 to 0x1100)",
    f"1-0 0 {OUTSIDE} 16 bytes behind the end of q (0x1000 to 0x1100)",
    f"1-0 0 {GUARD} 16 bytes before the start of a (0x2010 to 0x2040)",
    f"2080-20c0 0 {READ_ONLY} 16 bytes into b (0x2080 to 0x20c0)",
    "4112 bytes before the start of a (0x2010 to 0x2040); q (0x1000 to 0x1100) was there until it was freed",
    "1 1 e220a8397b1dcdaf",
)
"""``mixed(0)`` is the first number of splitmix64 from the seed 0."""


def test_every_include_is_here() -> None:
    files = emulation_files()
    assert exported() == files
    assert all(name.startswith("emu_") for name in files), "the names must not meet those of an emulator's own files"
    for name, text in files.items():
        assert set(re.findall(r'#include "([^"]+)"', text)) <= set(files), name


@pytest.mark.promise("Both emulators write the same form of report.")
@pytest.mark.parametrize(
    "compiler",
    [pytest.param("g++", marks=[pytest.mark.slow, pytest.mark.ci]), pytest.param("clang++-22", marks=pytest.mark.slow)],
)
def test_reports_and_books_are_as_they_were(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    for name, text in {**emulation_files(), "main.cpp": MAIN}.items():
        (tmp_path / name).write_text(text, "utf-8")
    units = [name for name in (*emulation_files(), "main.cpp") if name.endswith(".cpp")]
    command = [compiler, "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", *units, "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = tmp_path / "report"
    seen = subprocess.run(
        [tmp_path / "main"], env={"FMHA_EMU_REPORT": str(report)}, capture_output=True, text=True, check=True
    )
    assert seen.stderr == ""
    assert report.read_text("utf-8") == REPORT
    assert tuple(seen.stdout.splitlines()) == MEMORY


def test_the_report_is_what_the_host_reads() -> None:
    observed = read_report(REPORT)
    assert [finding.kind for finding in observed.findings] == [FindingKind.LDS_RACE, FindingKind.OUT_OF_BOUNDS]
    assert observed.findings[0].text == "tab\there \\"
    assert observed.fault == 'line 1: "sad"'
    assert [one.global_sectors for one in observed.executed] == [None, 13]
    assert json.loads(REPORT.splitlines()[0])["executed"][0]["classes"] == dict(observed.executed[0].classes)
