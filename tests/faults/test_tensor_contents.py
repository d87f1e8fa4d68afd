"""Whole tensor files whose content does not fit: refused before any row runs, because a kernel would trust them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Fmha

PAGED = (
    "run",
    "--backend",
    "null",
    "-H",
    "1",
    "-d",
    "16",
    "-s",
    "1",
    "--kv-cache",
    "paged:16",
    "--cache-seqlens",
    "20",
)


GENERATED = ("--q", "filled", "--k", "filled", "--v", "filled")


@pytest.mark.sampled(6, ci="all")
@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([0, 3], "has page 3 at place 1"),
        ([999, 0], "has page 999 at place 0"),
        ([-5, 0], "has page -5 at place 0"),
        ([0, -1], "has unused (-1) at place 1"),
        ([2**31 - 1, 0], "has page 2147483647"),
        ([-(2**31), 0], "has page -2147483648"),
        ([2**40, 0], "has page 1099511627776"),
        ([2**32, 1], "has page 4294967296"),
    ],
)
@pytest.mark.parametrize("command", ["run", "validate", "bench"])
def test_a_block_table_names_pages_that_exist(
    fmha: Fmha, tmp_path: Path, command: str, table: list[int], words: str
) -> None:
    np.save(tmp_path / "t.npy", np.array([table], np.int64))
    done = fmha(command, *PAGED[1:], "--block-table", str(tmp_path / "t.npy"))
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("error[E042]: the block table of sequence 0 ")
    assert words in done.err
    assert "  --> --block-table\n  = rule: the cache has pages 0 to 2, and the 20 keys need 2\n" in done.err


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("dtype", [np.int32, np.int64, ">i4", np.int16])
def test_a_good_block_table_of_any_integer(fmha: Fmha, tmp_path: Path, dtype: object) -> None:
    np.save(tmp_path / "t.npy", np.array([[2, 0]], dtype))  # type: ignore[call-overload]
    done = fmha(*PAGED, "--block-table", str(tmp_path / "t.npy"), *GENERATED)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("flag", "array", "code"),
    [
        ("--alibi-slopes", np.zeros((1, 1, 1), np.float32), "P015"),
        ("--bias-file", np.zeros((2, 2), np.float16), "P015"),
        ("--sink-logits", np.zeros(3, np.float32), "P015"),
        ("--sink-logits", np.zeros(1, np.int32), "E035"),
    ],
)
def test_an_error_names_the_flag_as_it_is_typed(
    fmha: Fmha, tmp_path: Path, flag: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], code: str
) -> None:
    np.save(tmp_path / "t.npy", array)
    done = fmha("run", "--backend", "null", "-H", "1", "-s", "4", "-d", "16", flag, str(tmp_path / "t.npy"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[{code}]: ")
    assert f"  --> {flag}\n" in done.err


def test_a_file_that_fits_the_first_row_alone_is_told_before_that_row(fmha: Fmha, tmp_path: Path) -> None:
    np.save(tmp_path / "bias.npy", np.zeros((1, 1, 4, 4), np.float16))
    flags = (
        "--backend",
        "null",
        "-H",
        "1",
        "-d",
        "16",
        "-s",
        "4,8",
        "--bias-file",
        str(tmp_path / "bias.npy"),
        *GENERATED,
    )
    done = fmha("run", *flags, "--jsonl", "--journal", str(tmp_path / "journal"))
    assert (done.code, done.out) == (2, "")
    assert "(1, 1, 4, 4), which does not broadcast to (1, 1, 8, 8)" in done.err
    assert not (tmp_path / "journal").exists()
