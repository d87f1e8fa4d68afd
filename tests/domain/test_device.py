"""The memory that the machine and the container leave for another process, and its pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.domain.device import available_bytes, huge_pages


def machine(folder: Path, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    return folder / "proc", folder / "cgroup"


MEMINFO = {"proc/meminfo": "MemTotal: 200 kB\nMemAvailable:      100 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": "garbage"}, None),
        ({"proc/meminfo": "MemAvailable: lots\n", "proc/self/cgroup": "0::/\n", "cgroup/memory.max": "many\n"}, None),
        (MEMINFO, 102400),
        ({**MEMINFO, "proc/self/cgroup": "0::/\n", "cgroup/memory.max": "max\n"}, 102400),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "1:cpu:/\n0::/job\n",
                "cgroup/job/memory.max": "5000\n",
                "cgroup/job/memory.current": "4000\n",
                "cgroup/job/memory.stat": "anon 1\ninactive_file 500\n",
            },
            1500,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "4:memory:/not/seen/from/inside\n",
                "cgroup/memory/memory.limit_in_bytes": "9000\n",
                "cgroup/memory/memory.usage_in_bytes": "9500\n",
            },
            0,
        ),
    ],
)
def test_the_narrowest_limit_counts(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    assert available_bytes(*machine(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("always within_size [advise] never deny force\n", "given, because the arena asks (POLICY is advise)"),
        ("[always] within_size advise never deny force\n", "given (POLICY is always)"),
        ("always within_size advise [never] deny force\n", "refused by the system (POLICY is never)"),
        ("garbage", "the system has no policy for them"),
        (None, "the system has no policy for them"),
    ],
)
def test_huge_pages_in_words(policy: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "shmem_enabled"
    if policy is not None:
        file.write_text(policy, "ascii")
    assert huge_pages(file) == words.replace("POLICY", str(file))
