"""What people type who do not know the command line yet, and what it answers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.cli.command import CommandSet
from fmha_cli.cli.commands import COMMANDS, declared, known_options
from fmha_cli.cli.failure import error_pages
from fmha_cli.domain.flags import FlagKind
from tests.cli.conftest import Fmha
from tests.cli.test_commands import HONEST, SMALL


@pytest.mark.promise("A wrong name leads to the one that was meant, or to none.")
@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize(
    ("argv", "code", "help"),
    [
        ("list-kernels --arch mi300", 2, "did you mean gfx942 (MI300A, MI300X)?"),
        ("list-kernels --arch gfx943", 2, "did you mean gfx942?"),
        ("list-kernels --arch k80", 2, "`fmha archs` lists those with kernels"),
        ("archs mi35", 2, "did you mean gfx950 (MI350, MI355)?"),
        ("list-kernels --arch gfx942 --backend ck", 2, "did you mean ck_tile?"),
        ("run --backend cuda", 2, "did you mean flash_attn?"),
        ("run --device cuda", 4, "did you mean cuda:0? `fmha devices` lists them"),
        ("run --device xyz", 4, "`fmha devices` lists them"),
        ("run --dtype float16", 2, "did you mean fp16?"),
        ("run --dtype fp16:half", 2, "did you mean fp16?"),
        ("run --mask casual", 2, "did you mean causal?"),
        ("run --mask sliding:64", 2, "did you mean window:L,R?"),
        ("run --mask window:64", 2, "e.g. --mask window:64,0 (64 keys to the left and none to the right)"),
        ("run --layout nhd", 2, "did you mean bshd?"),
        ("run --layout sbhd", 2, "tensors whose first axis is the sequence are not taken"),
        ("run --fill gaussian", 2, "did you mean normal?"),
        ("run --direction backward", 2, "did you mean bwd?"),
        ("run --qscale per_tensor", 2, "did you mean tensor?"),
        ("run --kv-cache paged", 2, "--kv-cache paged:128"),
        ("run --num-heads 4", 2, "did you mean --heads?"),
        ("run --bathc 2", 2, "did you mean --batch?"),
        ("run --xqz 2", 2, "`fmha run --help` lists them"),
        ("list-kernels --filter head_dim:128", 2, "did you mean hdim?"),
        ("benchmark", 2, "did you mean bench?"),
        ("xqz", 2, "`fmha --help` lists them"),
        ("cache clean", 2, "did you mean prune?"),
        ("schema nope", 2, "one of "),
        ("explain K9999", 2, "`fmha explain --rules` lists every id"),
    ],
)
def test_a_refused_name_gets_the_one_that_was_meant_or_none(fmha: Fmha, argv: str, code: int, help: str) -> None:
    done = fmha(*argv.split())
    assert (done.code, done.out) == (code, "")
    (line,) = [line for line in done.err.splitlines() if line.startswith("  = help: ")]
    assert line.startswith(f"  = help: {help}")
    assert not line.rstrip().endswith((";", ":"))


def test_variables_get_the_names_of_options_alone(fmha: Fmha) -> None:
    assert "did you mean FMHA_HEADS?" in fmha("archs", "gfx942", FMHA_NUM_HEADS="1").err
    assert "did you mean FMHA_HDIM?" in fmha("archs", "gfx942", FMHA_HEAD_DIM="1").err
    assert "did you mean" not in fmha("archs", "gfx942", FMHA_XQZ="1").err
    assert "did you mean" not in fmha("archs", "gfx942", FMHA_QUUX="1").err


@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run", "--mask", ""], "--mask needs a value"),
        (["run", "--model", ""], "--model needs a value"),
        (["bench", "--ab", "", "x"], "--ab needs a value"),
        (["results", "show", ""], "RUN needs a value"),
        (["compare", "", "x"], "BEFORE needs a value"),
        (["run", "-s", "1,,2"], "an empty element"),
        (["run", "-s", "4:2:+1"], "not an increasing range"),
        (["run", "--json", "--csv"], "--json and --csv contradict each other"),
        (["run", "--softcap", "x"], "not a finite number"),
        (["explain", "K012", "-s", "8"], "K012 beside --seqlen"),
        (["explain", "--rules", "--backend", "cpu"], "--rules beside --backend"),
        (["models", "gemma"], "fmha models gemma: no such preset"),
        (["bench", "--threads", "-1"], "--threads -1: at least 0"),
        (["bench", "--budget", "0"], "--budget 0: not positive"),
        (["bench", "--ab", "x", "y", "--kernel", "x"], "--ab and --kernel contradict each other"),
        (["validate", "--kernel", "x", "--all-kernels"], "--kernel and --all-kernels contradict each other"),
        (["bench", *SMALL, "--ab", "deadbeef", HONEST], "--ab deadbeef: no such kernel"),
        (["explain", *SMALL, "--why", "deadbeef", HONEST], "--why deadbeef: no such kernel"),
        (["run", *SMALL, "--select", "deadbeef"], "--select deadbeef: no such kernel"),
        (["compare", "--run", "no-such-program-here", "--run", "x"], "--run no-such-program-here: does not start"),
        (["compare", "a.json", "b.json", "--fail-on", ","], "--fail-on ,: no such choice"),
        (["tune", "-s", "8", "--from", "latest"], "--from and --seqlen: the problems come from one place"),
        (["tune", "--shapes", "nowhere"], "--shapes nowhere: cannot be read"),
        (["sweep", "-s", "8", "--overlap", "200%"], "--overlap 200%: not a share from 0% to 100%"),
        (["sweep", "-s", "8", "--scheduler", "foo"], "--scheduler foo: no address of a scheduler"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_to_do(fmha: Fmha, argv: list[str], says: str) -> None:
    done = fmha(*argv)
    assert done.code == 2
    assert says in done.err.splitlines()[0]
    assert "\n  = help: " in done.err


def test_the_page_of_a_rule_ignores_the_problem_of_a_variable(fmha: Fmha) -> None:
    assert fmha("explain", "K012", FMHA_SEQLEN="8").code == 0


def test_no_page_names_an_option_that_its_command_lacks() -> None:
    known = known_options()
    for id, (_, help) in error_pages().items():
        for command, words in re.findall(r"`fmha ([a-z-]+)([^`]*)`", help):
            missing = [
                word for word in re.findall(r"--([a-z-]+)", words) if word not in {*known.get(command, ()), "help"}
            ]
            assert not missing, id


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.promise("`--window N`, `fmha help CMD` and `-V` work.")
@pytest.mark.parametrize("words", ["", "bench", "cache", "cache ls"])
def test_help_is_a_command_too(fmha: Fmha, words: str) -> None:
    asked, usual = fmha("help", *words.split()), fmha(*words.split(), "--help")
    assert (asked.code, asked.out, asked.err) == (0, usual.out, "")
    assert asked.out.startswith(f"Usage: fmha {words}".rstrip())


def test_help_on_nothing_suggests(fmha: Fmha) -> None:
    done = fmha("help", "validat")
    assert (done.code, done.out) == (2, "")
    assert "did you mean validate?" in done.err


@pytest.mark.promise("`--window N`, `fmha help CMD` and `-V` work.")
def test_the_short_version(fmha: Fmha) -> None:
    assert fmha("-V") == fmha("--version")


@pytest.mark.parametrize("argv", [["--color", "foo"], ["--color", "foo", "archs"], ["archs", "--color", "foo"]])
def test_a_wrong_option_in_front_of_the_command_is_named(fmha: Fmha, argv: list[str]) -> None:
    done = fmha(*argv)
    said = "error[E008]: --color foo: no such choice\n  --> --color\n  = help: one of auto, always, never\n"
    assert (done.code, done.out, done.err) == (2, "", said)


def test_options_without_a_command_are_no_reason_for_a_page_of_help(fmha: Fmha) -> None:
    done = fmha("-q")
    assert (done.code, done.err) == (2, "error[E001]: fmha: no command was given\n  = help: `fmha --help` lists them\n")


# -- --window ----------------------------------------------------------------------------------------------------------


@pytest.mark.promise("`--window N`, `fmha help CMD` and `-V` work.")
def test_window_is_a_spelling_of_the_mask(fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mask(*flags: str, **variables: str) -> str:
        return str(fmha("plan", "-s", "64", "-d", "64", *flags, "--json", **variables).document["problem"]["mask"])

    assert mask("--window", "16") == mask("--mask", "window:16,0") == "window:16,0"
    assert mask("--window", "1k", "--mask", "window:1024,0") == "window:1024,0"
    assert mask("--window", "16", FMHA_MASK="causal") == "window:16,0"
    assert mask("--causal", FMHA_WINDOW="16") == "causal"
    (tmp_path / "fmha.toml").write_text("window = 8\n")
    monkeypatch.chdir(tmp_path)
    assert mask() == "window:8,0"
    assert mask("--mask", "none") == "none"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (["--causal"], "--causal and --window 16 contradict each other"),
        (["--mask", "causal"], "--mask causal and --window 16 contradict each other"),
        (["--mask", "window:16,1"], "--mask window:16,1 and --window 16 contradict each other"),
    ],
)
def test_window_contradicts_another_mask(fmha: Fmha, other: list[str], said: str) -> None:
    done = fmha("plan", "--window", "16", *other)
    assert done.code == 2
    assert done.err.startswith(f"error[P007]: {said}\n")
    assert "= rule: --window 16 means --mask window:16,0, which hides the keys to the right too" in done.err


def test_a_window_has_no_negative_size(fmha: Fmha) -> None:
    done = fmha("plan", "--window", "-1")
    assert (done.code, done.err.splitlines()[0]) == (2, "error[P005]: --window -1")


# -- places ------------------------------------------------------------------------------------------------------------


def test_a_journal_is_refused_before_any_work_and_its_folder_is_not_made(fmha: Fmha, home: Path) -> None:
    done = fmha("run", *SMALL, "--journal", "no/such/j")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error[X040]: --journal no/such/j: cannot be written\n  --> --journal\n")
    assert not (home / "work" / "no").exists()
    (home / "work" / "taken").write_text("")
    done = fmha("run", *SMALL, "--journal", "taken", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[X030]: journal taken: it already exists\n  --> --journal\n")


def test_a_dry_run_refuses_the_files_that_the_run_refuses(fmha: Fmha, home: Path) -> None:
    np.save(home / "work" / "do.npy", np.zeros((1, 1, 32, 32), np.float16))
    wet, dry = (fmha("run", *SMALL, "--do", "do.npy", *more) for more in ((), ("--dry-run",)))
    assert wet.err.startswith("error[P015]: the problem has no tensor do\n")
    assert dry == wet


def test_a_file_without_elements_is_named_by_its_axis(fmha: Fmha, home: Path) -> None:
    np.save(home / "work" / "q.npy", np.zeros((1, 2, 0, 8), np.float16))
    done = fmha("run", "--q", "q.npy")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[P005]: the file of q has shape (1, 2, 0, 8), whose axis s is 0\n  --> --q\n")


@pytest.mark.promise("Pipes are written to, inputs are never replaced, and one failing file costs one note.")
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            ["compare", "rows.jsonl", "b", "--json", "-o", "rows.jsonl"],
            "-o rows.jsonl: this is the file of BEFORE",
        ),
        (["results", "show", "rows.jsonl", "-o", "link"], "-o link: this is the file of RUN rows.jsonl"),
        (["results", "export", "rows.jsonl", "--csv", "rows.jsonl"], "--csv rows.jsonl: this is the file of RUN"),
        (["report", "rows.jsonl", "-o", "rows.jsonl"], "-o rows.jsonl: this is the file of RUNS"),
        (["bench", *SMALL, "--baseline", "rows.jsonl", "-o", "link"], "-o link: this is the file of --baseline"),
    ],
)
def test_no_command_overwrites_what_it_reads(fmha: Fmha, home: Path, argv: list[str], says: str) -> None:
    (home / "work" / "rows.jsonl").write_text("rows")
    (home / "work" / "link").symlink_to("rows.jsonl")
    done = fmha(*argv)
    assert done.code == 2
    assert done.err.startswith(f"error[E038]: {says}")
    assert (home / "work" / "rows.jsonl").read_text() == "rows"


def test_every_option_that_writes_a_file_says_so() -> None:
    """``refuse_overwriting_inputs`` asks for it."""
    files = {
        (name, option.key): option.writes
        for name, parts in ((name, declared(name)) for name in COMMANDS)
        for spec in ([one for _, one in parts.commands.values()] if isinstance(parts, CommandSet) else [parts])
        for option in spec.options
        if option.kind is FlagKind.FILE and option.panel == "Output" and option.metavar != "DIR"
    }
    assert {key for _, key in files} >= {"output", "html", "parquet", "jsonl", "csv"}
    assert [name for name, writes in files.items() if not writes] == []


# -- words -------------------------------------------------------------------------------------------------------------


def test_more_splits_than_keys_get_a_word(fmha: Fmha) -> None:
    done = fmha("explain", "-s", "64", "-d", "64", "--splits", "65", "--backend", "null")
    assert done.err == "--splits 65 for 64 keys: at least 1 split will be empty\n"
    done = fmha("explain", "-s", "64", "-d", "64", "--splits", "64", "--backend", "null")
    assert done.err == ""


@pytest.mark.parametrize("command", ["explain", "plan"])
def test_a_sweep_is_refused_by_the_flag_that_swept(fmha: Fmha, command: str) -> None:
    done = fmha(command, "-s", "64,128")
    assert done.code == 2
    assert "  --> --seqlen\n" in done.err
    assert "--seqlen has 2 values: 64, 128" in done.err


def test_a_page_size_is_shown_by_an_example(fmha: Fmha) -> None:
    done = fmha("run", *SMALL, "--kv-cache", "paged")
    assert (done.code, done.err.splitlines()[-1]) == (2, "  = help: --kv-cache paged:128")


def test_a_probability_near_1_is_not_rounded_to_it(fmha: Fmha) -> None:
    assert "dropout=0.999999:" in fmha("plan", *SMALL, "--dropout", "0.999999").out
    assert "softcap=30.0" in fmha("plan", *SMALL, "--softcap", "30").out
