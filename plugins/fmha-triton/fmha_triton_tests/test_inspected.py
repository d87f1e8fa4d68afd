"""What compiling showed about the configurations: every one was compiled for every architecture, and no mark claims more."""

from __future__ import annotations

import importlib.util
import json
import lzma
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton.algorithm import archs, configuration, data
from fmha_triton.building import triton_version
from fmha_triton.catalogue import algorithm_of, kernels_of
from fmha_triton.inspected import FIGURES, Mark, keys_of, mark_of, representative, row_of, rows

PLACES = [
    (arch, function, key) for arch in archs() for function in data()["kernels"] for key in keys_of(arch, function)
]


@pytest.mark.promise("Every Triton configuration was compiled for every architecture, and no figure is called tuned.")
def test_every_configuration_was_compiled_for_every_architecture() -> None:
    """Changing a configuration without compiling it fails here: run ``plugins/fmha-triton/update_inspected.py``."""
    assert set(rows()) == set(PLACES)
    for arch, function, key in PLACES:
        row = rows()[arch, function, key]
        assert row["config"] == data()["kernels"][function]["by_class"][data()["archs"][arch]["class"]][key]
        assert "why" not in row, row
        assert all(row[name] >= 0 for name in FIGURES)


def test_every_kernel_has_a_configuration_that_was_compiled() -> None:
    for arch in archs():
        for kernel in kernels_of(arch):
            algorithm = algorithm_of(kernel)
            assert row_of(kernel)["config"] == [getattr(algorithm, name) for name in data()["columns"]]


def work(row: dict[str, Any]) -> float:
    """Instructions of all warps in the code, for one element of the tile."""
    block_m, block_n, warps, _, _ = row["config"]
    return float(row["instructions"] * warps / (block_m * block_n))


@pytest.mark.promise("Every Triton configuration was compiled for every architecture, and no figure is called tuned.")
def test_a_configuration_is_chosen_only_if_no_other_is_better_in_spills_and_instructions() -> None:
    """Nothing is called tuned: no device has run these kernels."""
    found = [row for row in rows().values() if mark_of(row) is Mark.CHOSEN]
    assert found
    for row in found:
        assert all(other["config"] != row["config"] for other in row["others"])
        assert all(other["triton"] == row["triton"] for other in row["others"])
        better = [o for o in row["others"] if o["spilled"] < row["spilled"] and work(o) < work(row)]
        assert not better, row
    text = resources.files("fmha_triton").joinpath("configs.json").read_text("utf-8")
    assert not {"tuned", "provenance"} & set(json.loads(text)["kernels"]["forward"])
    assert mark_of({"config": [1]}) is Mark.INSPECTED


def test_the_results_are_of_kernels_that_the_catalogue_has() -> None:
    """A row of the page of results goes stale when its kernel's configuration changes."""
    page = json.loads(lzma.decompress((Path(__file__).parents[3] / "results/data/triton_check.json.xz").read_bytes()))
    catalogue = {kernel.digest for arch in archs() for kernel in kernels_of(arch)}
    assert [row["flags"] for row in page["rows"] if row["kernel"] not in catalogue] == []


def test_the_representative_is_the_plain_kernel() -> None:
    kernel = representative("gfx950", "forward", "128:8")
    assert kernel.signature.dtype.is_fp8
    assert algorithm_of(kernel) == configuration("gfx950", "forward", 128, pad=False, bits=8)
    with pytest.raises(KeyError):
        representative("gfx90a", "forward", "64:8")


@pytest.mark.slow
@pytest.mark.parametrize("place", Random("inspected").sample(PLACES, 4), ids=" ".join)
def test_a_row_has_the_figures_of_a_new_build(place: tuple[str, str, str], tmp_path: Path) -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed (pip install triton)")
    row = rows()[place]
    if triton_version() != row["triton"]:
        pytest.skip(f"the row is of Triton {row['triton']}")
    from fmha_triton.building import build, inspect

    from fmha_cli import plugin

    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    kernel = representative(*place)
    figures = inspect(kernel, build(plugin.Stage(kernel), plugin.BuildContext(cache_root=root)))
    assert (figures["instruction_classes"]["total"], figures["matrix_instructions"]) == (
        row["instructions"],
        row["matrix_instructions"],
    )
    assert figures["occupancy"] == row["occupancy"]
