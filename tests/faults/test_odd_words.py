"""Words that the system or Python itself refuses: endless numbers, endless names, a folder that is gone, unknown homes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fmha_cli.cli.config import project_file
from fmha_cli.cli.streams import terminal_width
from fmha_cli.domain.errors import UsageError
from fmha_cli.results.place import store_path
from fmha_cli.sweeps.slurm import number_of
from fmha_cli.toolchain.cache.root import cache_root
from tests.cli.conftest import Fmha
from tests.cli.test_commands import SMALL

DIGITS = "1" * 5000
"""Python reads no integer of more than 4300 digits."""
NAME = "a" * 300
"""File systems refuse such a name, where a look for a shorter one would find nothing."""


@pytest.mark.parametrize("flag", ["-s", "--seed", "--window", "--splits", "--seqlens-q", "--threads", "-s 1:8:+"])
def test_a_number_without_end_is_no_number(fmha: Fmha, flag: str) -> None:
    done = fmha("run", *f"{flag} {DIGITS}".replace("+ ", "+").split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[P003]: --")
    assert "...: not an integer of at most 40 digits\n" in done.err


@pytest.mark.parametrize(
    "argv", [f"run --mask window:{DIGITS},0", f"cache prune --max-age {DIGITS}d", f"cache prune --max-size {DIGITS}g"]
)
def test_nor_is_one_inside_of_a_word(fmha: Fmha, argv: str) -> None:
    assert fmha(*argv.split()).code == 2


@pytest.mark.parametrize("option", ["jobs=²", "jobs=0", f"jobs={DIGITS}", "jobs="])
def test_the_jobs_of_slurm_are_a_number(option: str) -> None:
    with pytest.raises(UsageError, match="--scheduler slurm: jobs="):
        number_of("jobs", dict([option.split("=")]))


def test_splits_have_a_limit_too(fmha: Fmha) -> None:
    done = fmha("explain", "--splits", "2147483648")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[P017]: --splits 2147483648\n")


@pytest.mark.parametrize(
    ("argv", "code", "id"),
    [
        ("run --model NAME", 2, "E060"),
        ("models NAME", 2, "E060"),
        ("results show NAME --store no.sqlite", 2, "E051"),
        ("results ls --store NAME", 4, "X050"),
        ("tune ls --store NAME", 4, "X050"),
        ("sweep --resume NAME", 2, "E051"),
        ("parity --upstream-bin NAME", 4, "Y003"),
        ("cache ls --cache-dir NAME", 4, "B002"),
    ],
)
def test_a_name_that_is_too_long_is_no_bug(
    fmha: Fmha, monkeypatch: pytest.MonkeyPatch, argv: str, code: int, id: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path.cwd()))
    done = fmha(*argv.replace("NAME", NAME).split())
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"error[{id}]: ")


def test_a_folder_that_may_not_be_looked_into_holds_no_configuration() -> None:
    assert project_file(Path("/", NAME)) is None


def test_a_removed_folder_is_named(fmha: Fmha, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = fmha("archs")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error[X041]: the current folder cannot be used\n")


def test_the_home_of_an_unknown_user_is_a_name_like_any_other() -> None:
    for path in (store_path("~no such user/x"), cache_root("~no such user/x")):
        assert path == Path.cwd() / "~no such user" / "x"


def test_a_width_without_end_is_none() -> None:
    assert terminal_width({"COLUMNS": DIGITS}, None) is None


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ("--scale 1e300", "--scale 1e+300"),
        ("--scale=-3.5e38", "--scale -3.5e+38"),
        ("--softcap 1e300", "--softcap 1e+300"),
        ("--softcap 1e-46", "--softcap 1e-46"),
    ],
)
def test_a_scalar_that_no_kernel_can_be_given_is_no_kernels_fault(fmha: Fmha, flags: str, error: str) -> None:
    done = fmha("plan", *flags.split(), "--backend", "null")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[P020]: {error}\n")


def test_the_ends_of_32_bits_are_taken(fmha: Fmha) -> None:
    for flags in (("--scale", "3.4e38"), ("--scale", "1e-300"), ("--softcap", "1.5e-45")):
        assert fmha("plan", *flags, "--backend", "null").code == 0


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ("--seqlens-q 3,-1", "error[P005]: --seqlens-q -1\n  --> --seqlens-q\n"),
        ("--seqlens-q 3,1 --seqlens-k 3,-1", "error[P005]: --seqlens-k -1\n"),
        ("--append 3", "error[P007]: --append needs --kv-cache\n  --> --append\n"),
        ("--direction bwd --dbias", "error[P007]: --dbias needs --bias elementwise\n"),
        ("-s 1:1m:+1", "error[S002]: the sweep has at least 100,001 points\n"),
        ("-s 1:1001:+1 -H 1:100:+1", "error[S002]: the sweep has 100,100 points\n"),
    ],
)
def test_an_error_names_what_was_given(fmha: Fmha, flags: str, error: str) -> None:
    done = fmha("run", *flags.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(error)


def test_one_of_a_kind_is_not_several(fmha: Fmha) -> None:
    few = fmha("explain", "-s", "1", "-H", "8,12", "--kv-heads", "3", "--skip-impossible", "--dtype", "fp32")
    assert "2 problems (heads x2), dropped 1 impossible one\n" in few.err
    assert "1 query row: a decode kernel" in few.out
    assert fmha("run", "--splits", "2", "-s", "1", "--dry-run", "--backend", "null").err.startswith(
        "--splits 2 for 1 key: at least 1 split will be empty\n"
    )


def test_a_plugin_that_cannot_be_written_leaves_nothing(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *given: object) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    done = fmha("plugins", "new", "abcd")
    assert (done.code, list(Path.cwd().iterdir())) == (4, [])
    assert fmha("plugins", "new", "abcd", "--dir", NAME).code == 4


def test_an_error_in_one_line_says_why_only_if_it_knows() -> None:
    assert UsageError("what").in_one_line == "what"
    assert UsageError("what", why="why").in_one_line == "what: why"


def test_a_user_without_a_home_is_told_what_to_set(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "FMHA_CACHE_DIR",
        "FMHA_STORE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", str)  # what it gives a user whom the system does not know
    for argv in ("cache ls", "results ls", "sweep --resume latest"):
        done = fmha(*argv.split())
        assert (done.code, done.out) == (4, "")
        assert done.err.startswith("error[X042]: the home of this user is unknown\n")
        assert "  = help: set HOME" in done.err
    monkeypatch.delenv("FMHA_NO_STORE", raising=False)
    done = fmha("run", "-s", "8", "-d", "8", "--backend", "null", "--dry-run", "--cache-dir", "cache")
    assert done.code == 0, done.err
    assert fmha("archs", "gfx942").code == 0


def test_prune_says_what_had_to_stay(fmha: Fmha) -> None:
    assert fmha("build", "-s", "8", "-d", "8", "--backend", "null", "--cache-dir", "cache").code == 0
    done = fmha("cache", "prune", "--max-age", "0s", "--dry-run", "--cache-dir", "cache")
    assert done.out.splitlines()[-1].endswith("cache; kept 1 entry used in the last minutes")
    assert done.err == "a dry run: nothing was removed\n"
    assert " would be freed in " in done.out


def test_a_file_without_names_is_not_asked_for_one(fmha: Fmha) -> None:
    np.save("q.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.savez("empty.npz")
    assert "  = help: name the file alone: a .npy" in fmha("run", "--q", "q.npy:q").err
    assert "  = help: the file holds no arrays\n" in fmha("run", "--q", "empty.npz").err


def test_the_name_that_a_document_gives_its_schema_is_understood(fmha: Fmha) -> None:
    assert "  = help: did you mean record?\n" in fmha("schema", "fmha.record/3").err


def test_inspect_takes_a_model_as_its_help_says(fmha: Fmha) -> None:
    flags = "--executed --model gemma-3-1b:local --phase decode --batch 1 --seqlen-k 8"
    assert fmha("inspect", *flags.split()).err.startswith("error[Z005]: --executed: only an emulated device")


@pytest.mark.parametrize(
    ("types", "help"),
    [
        (("float64", "float32"), "name one with --dtype, to which they are rounded"),
        (("float16", "float32"), "--dtype fp16, to which the others are rounded"),
        (("int32", "float32"), "give them as one of fp32, fp16, bf16 or fp8"),
        (("int32", "int32"), "give them as one of fp32, fp16, bf16 or fp8"),
    ],
)
def test_the_way_out_of_several_types_is_one(fmha: Fmha, types: tuple[str, str], help: str) -> None:
    for name, kind in zip("qk", types, strict=True):
        np.save(f"{name}.npy", np.ones((1, 1, 8, 8), kind))
    files = ("plan", "--backend", "null", "--q", "q.npy", "--k", "k.npy")
    assert f"  = help: {help}\n" in fmha(*files).err
    if "--dtype" in help:
        assert fmha(*files, "--dtype", "fp16").code == 0


def test_a_journal_that_is_resumed_has_no_second_file(fmha: Fmha) -> None:
    done = fmha("run", "--resume", "a", "--journal", "b")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[E002]: --resume and --journal contradict each other\n")
    assert "journal a: there is no such file" in fmha("run", *SMALL, "--resume", "a", FMHA_JOURNAL="b").err


def test_a_tensor_that_only_another_direction_has_is_not_a_matter_of_shapes(fmha: Fmha) -> None:
    np.save("do.npy", np.ones((1, 1, 8, 8), np.float32))
    assert "  = help: leave --do out; or --direction bwd\n" in fmha("run", *SMALL, "--do", "do.npy").err
