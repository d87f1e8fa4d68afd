"""The lengths that the upstream program draws equal the numbers from C++'s standard library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.parity.lengths import Mt19937, lengths_of
from fmha_cli.domain.counterpart import Program, UpstreamCase
from tests.support.generators.ck_tile.cases import ck_case

CPP = """
#include <cstdio>
#include <random>
int main() {
    for (unsigned seed : {1u, 11939u, 4294967295u}) {
        std::mt19937 engine(seed);
        for (int i = 0; i < 700; ++i) {
            int high = i % 7 == 0 ? 0 : i % 5 == 0 ? 2000000000 : i * 37 % 1000;
            std::uniform_int_distribution<int> ints(0, high);
            std::uniform_int_distribution<unsigned long> longs(3, 3 + high);
            int a = ints(engine);
            unsigned long b = longs(engine);
            std::printf("%d %lu\\n", a, b);
        }
    }
}
"""


def drawn() -> str:
    lines = []
    for seed in (1, 11939, 4294967295):
        engine = Mt19937(seed)
        for i in range(700):
            high = 0 if i % 7 == 0 else 2000000000 if i % 5 == 0 else i * 37 % 1000
            a = engine.uniform(0, high)
            lines.append(f"{a} {engine.uniform(3, 3 + high)}")
    return "\n".join(lines) + "\n"


def test_the_draws_are_those_of_libstdcxx(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here, whose library the numbers are compared with")
    (tmp_path / "draws.cpp").write_text(CPP)
    made = tmp_path / "draws"
    subprocess.run([compiler, str(tmp_path / "draws.cpp"), "-o", str(made)], check=True, timeout=600)
    done = subprocess.run([str(made)], check=True, capture_output=True, text=True, timeout=600)
    assert drawn() == done.stdout


def test_the_engine_is_the_standard_one() -> None:
    """[rand.predef] of the C++ standard: the 10,000th number of a default std::mt19937 is 4123659995."""
    engine = Mt19937(5489)
    assert [engine.next() for _ in range(10_000)][-1] == 4123659995


def forward(**settings: str) -> UpstreamCase:
    return ck_case("x", Program.FWD, settings)


def test_batch_mode_has_one_length() -> None:
    found = lengths_of(forward(b="3", s="100", s_k="51"))
    assert (found.queries, found.keys, found.drawn) == ((100,) * 3, (51,) * 3, False)
    assert lengths_of(forward(b="2", s="100")).keys == (100, 100)


def test_group_mode_fills_up_to_the_batch() -> None:
    """One missing length needs no draw. With two, keys are drawn around the average; queries cannot change."""
    two = lengths_of(forward(mode="1", b="2", s="55", s_k="256"))
    assert (two.queries, two.keys, two.drawn) == ((55, 55), (256, 256), False)
    three = lengths_of(forward(mode="1", b="3", s="200", s_k="520"))
    assert three.queries == (200, 200, 200)
    assert three.drawn
    assert three.keys[0] == 520
    assert sum(three.keys[1:]) == 2 * 520
    assert three == lengths_of(forward(mode="1", b="3", s="200", s_k="520"))
    assert lengths_of(forward(mode="1", b="3", s="200", s_k="520", seed="7")).keys != three.keys


def test_lists_are_taken_as_they_are() -> None:
    found = lengths_of(forward(mode="1", b="3", s="50,60,40", s_k="128,256,192"))
    assert (found.queries, found.keys, found.drawn) == ((50, 60, 40), (128, 256, 192), False)


def test_appending_draws_cache_lengths_after_the_first() -> None:
    found = lengths_of(forward(b="3", s="64", s_k="129", s_knew="64"))
    assert found.keys[0] == 129
    assert all(64 <= n <= 129 for n in found.keys)
    assert found.cached == tuple(n - 64 for n in found.keys)
    assert found.drawn
    drawn_new = lengths_of(forward(b="1", s="64", s_k="129", s_knew="-1"))
    assert 1 <= drawn_new.new <= 64


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "1", "b": "3", "s": "200", "s_k": "520", "seed": "0"},
        {"b": "3", "s": "64", "s_k": "32", "s_knew": "64"},
        {"b": "1", "s": "64", "s_k": "32", "s_knew": "64"},
    ],
)
def test_what_cannot_be_known_or_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"seed=0|less than the 64 new keys"):
        lengths_of(forward(**settings))
