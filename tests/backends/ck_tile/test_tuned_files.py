"""Tuned kernels in CK's own forms: the files are those of the golden folder, and what cannot share one is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile import backend
from fmha_cli.backends.ck_tile.generator_check import VARIABLE
from fmha_cli.backends.ck_tile.tuned_files import AITER, COLUMNS, CUSTOM, tile_of
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tuning import Exporting, TunedFile, TunedKernel

GOLDEN = Path(__file__).parent / "golden"
DEVICE = DeviceFacts(id="hip:0", archs=("gfx942",), units=304)
LENGTHS = (512, 896, 4096, 8192)


def problem(seqlen: int, **flags: str | int | bool) -> Problem:
    return Problem.of(seqlens_q=str(seqlen), heads=8, dtype="bf16", hdim=128, **flags)


def kernels_of(asked: Problem) -> list[KernelSpec]:
    fit = [d.kernel for d in backend.decide(asked, DEVICE) if isinstance(d, Supported)]
    return [kernel for kernel in fit if kernel.family is Family.FWD]


def tuned(seqlen: int, place: int = 0, occupancy: int | None = None, **flags: str | int | bool) -> TunedKernel:
    asked = problem(seqlen, **flags)
    kernel = kernels_of(asked)[place]
    if occupancy is not None:
        kernel = replace(kernel, algorithm=replace(algorithm_of(kernel), occupancy=occupancy))
    return TunedKernel(problem=asked, kernel=kernel, level_ns=1_500_000.0)


def ring() -> list[TunedKernel]:
    """Alternating tiles: the first again at the end, and the second at two neighbouring lengths."""
    return [tuned(length, occupancy=occupancy) for length, occupancy in zip(LENGTHS, (None, 2, 2, None), strict=True)]


def exported(form: str, kernels: list[TunedKernel], **options: str) -> TunedFile:
    assert isinstance(backend, Exporting)
    return backend.export_tuned(form, kernels, options)


@pytest.mark.promise("`explain` says why a tuned kernel is not used, and files for other projects are exact.")
@pytest.mark.parametrize(("form", "name"), [(CUSTOM, "tuned_custom.json"), (AITER, "tuned_aiter.csv")])
def test_the_files_are_golden(form: str, name: str) -> None:
    assert exported(form, list(reversed(ring()))).text == (GOLDEN / name).read_text("utf-8")


def test_intervals_are_half_open_folded_and_joined() -> None:
    config = json.loads(exported(CUSTOM, ring()).text)
    first, second = config["tiles"]["bf16"]["128,128"]
    assert first["cpp_constraint"] == "a.max_seqlen_q < 704 || a.max_seqlen_q >= 6144"
    assert second["cpp_constraint"] == "(a.max_seqlen_q >= 704 && a.max_seqlen_q < 6144)"
    assert (first["F_occupancy"], second["F_occupancy"]) == (-1, 2)
    assert second["_max_seqlen_samples"] == [896, 4096]
    assert tile_of(ring()[0].kernel).items() <= first.items()


@pytest.mark.parametrize(
    ("change", "word"),
    [({"causal": True}, "mask"), ({"lse": True}, "lse"), ({"softcap": 30}, "softcap"), ({"kv_heads": 2}, "heads")],
)
@pytest.mark.parametrize("form", [CUSTOM, AITER])
def test_problems_that_cannot_share_a_file_are_refused(form: str, change: dict[str, int | bool], word: str) -> None:
    with pytest.raises(UsageError, match="cannot share") as refusal:
        exported(form, [tuned(512), tuned(1024, **change)])
    assert refusal.value.code == "E066"
    assert word in str(refusal.value.why)


def test_one_length_twice_and_backward_kernels_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot share"):
        exported(CUSTOM, [tuned(512), tuned(512, occupancy=2)])
    backward = replace(tuned(512).kernel, family=Family.BWD_DQ_DK_DV)
    with pytest.raises(UsageError, match="cannot share"):
        exported(CUSTOM, [replace(tuned(512), kernel=backward)])


def test_the_rows_have_aiters_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(exported(AITER, ring()).text)))
    assert tuple(rows[0]) == COLUMNS
    assert [row["max_seqlen"] for row in rows] == list(map(str, LENGTHS))
    assert {row["status"] for row in rows} == {"ok"}
    assert rows[1]["best_tile_name"].endswith("_o2")


def test_without_a_checkout_nothing_is_proved() -> None:
    made = exported(CUSTOM, ring())
    assert made.proof is None
    assert "--ck-home" in str(made.why)


GENERATOR = """
import json, os, sys
out = sys.argv[sys.argv.index("--list_blobs") + 1]
config = json.load(open(os.environ["{variable}"]))
assert config["target"] == sys.argv[sys.argv.index("--targets") + 1]
open(out, "w").write("".join(f"/there/{{name}}.cpp\\n" for name in {names!r}))
"""


def checkout(folder: Path, names: list[str], *, reads: bool = True) -> Path:
    """A checkout whose generator lists some kernels."""
    example = folder / "example" / "ck_tile" / "01_fmha"
    (example / "codegen" / "ops").mkdir(parents=True)
    (example / "codegen" / "ops" / "fmha_fwd.py").write_text(f"# {VARIABLE if reads else 'older'}\n", "utf-8")
    (example / "generate.py").write_text(GENERATOR.format(variable=VARIABLE, names=names), "utf-8")
    return folder


def names_of(kernels: list[TunedKernel]) -> list[str]:
    found = [backend.upstream_name(one.kernel) for one in kernels]
    return [name for name in found if name is not None]


def test_the_generator_of_a_checkout_must_list_every_winner(tmp_path: Path) -> None:
    names = names_of(ring())
    whole = exported(CUSTOM, ring(), **{"ck-home": str(checkout(tmp_path / "whole", names))})
    assert "lists all 2 kernels" in str(whole.proof)
    less = exported(CUSTOM, ring(), **{"ck-home": str(checkout(tmp_path / "less", names[:1]))})
    assert less.proof is None
    assert "is not among them" in str(less.why)


def test_an_older_generator_and_a_broken_one_prove_nothing(tmp_path: Path) -> None:
    older = exported(CUSTOM, ring(), **{"ck-home": str(checkout(tmp_path / "older", [], reads=False))})
    assert (older.proof, "it is older" in str(older.why)) == (None, True)
    broken = checkout(tmp_path / "broken", [])
    (broken / "example" / "ck_tile" / "01_fmha" / "generate.py").write_text("raise SystemExit('no')", "utf-8")
    failed = exported(CUSTOM, ring(), **{"ck-home": str(broken)})
    assert (failed.proof, failed.why) == (None, "the generator failed: no")
