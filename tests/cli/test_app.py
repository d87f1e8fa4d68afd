"""The entry point: help, usage errors, similar names, interruption, bugs, closed pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.cli import app
from fmha_cli.cli.commands import COMMANDS
from fmha_cli.domain.errors import InternalError
from tests.cli.conftest import Fmha

PROGRAM = [sys.executable, "-m", "fmha_cli"]


def imported_by(*argv: str) -> set[str]:
    """The modules in ``sys.modules`` after one command line."""
    script = "import sys, os\nfrom fmha_cli.cli.app import run\ncode = run(sys.argv[1:], os.environ)\n"
    script += "sys.stderr.write('\\nMODULES ' + ' '.join(sys.modules))\nsys.exit(code)\n"
    done = subprocess.run([sys.executable, "-c", script, *argv], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("argv", [["--help"], ["list-kernels", "--arch", "x86_64_v4"], ["run", "--help"]])
def test_fast_commands_import_nothing_heavy(argv: list[str]) -> None:
    modules = imported_by(*argv)
    heavy = {"numpy", "rich", "pydantic", "safetensors", "ml_dtypes"}
    assert not {name for name in modules if name.partition(".")[0] in heavy}
    assert not {name for name in modules if name.startswith("fmha_cli.backends.") and "session" in name}
    if "--help" in argv:
        heard = {name for name in modules if name.startswith(("fmha_cli.backends", "fmha_cli.run", "pluggy"))}
        assert heard <= {"fmha_cli.backends", "fmha_cli.backends.builtins"}  # a table that names their options


def test_the_help_of_all_commands_imports_no_command(fmha: Fmha) -> None:
    assert not {
        name for name in imported_by("--help") if name.startswith(("fmha_cli.cli.options", "fmha_cli.backends"))
    }


@pytest.mark.promise("README: One command line for every fused multi-head-attention kernel.")
def test_help_lists_every_command(fmha: Fmha) -> None:
    done = fmha("--help")
    assert done.code == 0
    assert all(f"\n  {name}" in done.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(fmha: Fmha, name: str) -> None:
    done = fmha(name, "--help")
    assert done.code == 0
    assert COMMANDS[name].summary.split(":")[0].split(",")[0].split()[0] in done.out


def test_version(fmha: Fmha) -> None:
    assert fmha("--version").out == "fmha 0.1.0\n"


def test_no_command_prints_the_help_to_stderr(fmha: Fmha) -> None:
    done = fmha()
    assert (done.code, done.out) == (2, "")
    assert "Commands:" in done.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lst-kernels"], "error[E001]: fmha lst-kernels: no such command\n  = help: did you mean list-kernels?\n"),
        (["cache", "sl"], "error[E001]: fmha cache sl: no such command\n  = help: did you mean ls?\n"),
        (
            ["archs", "--jsn"],
            "error[E001]: fmha archs: no such option --jsn\n  --> --jsn\n  = help: did you mean --json?\n",
        ),
        (
            ["explain", "--heads"],
            "error[E002]: fmha explain: option '--heads' requires an argument\n  --> --heads\n  = help: `fmha explain --help`\n",
        ),
        (
            ["explain", "--heads", "9", "--kv-heads", "4"],
            "error[P006]: --heads 9 is not a multiple of --kv-heads 4\n  --> --kv-heads\n"
            "  = rule: every key/value head serves the same number of query heads\n"
            "  = help: --kv-heads one of 1, 3, 9\n",
        ),
        (
            ["explain", "--heads", "8,9", "--kv-heads", "4"],
            "error[P006]: --heads 9 is not a multiple of --kv-heads 4\n  --> the point --heads 9\n"
            "  = rule: every key/value head serves the same number of query heads\n"
            "  = help: --kv-heads one of 1, 3, 9; --skip-impossible drops such points\n",
        ),
        (
            ["archs", "--color", "sometimes"],
            "error[E008]: --color sometimes: no such choice\n  --> --color\n  = help: one of auto, always, never\n",
        ),
    ],
)
def test_usage_errors_say_what_where_why_and_what_to_do(fmha: Fmha, argv: list[str], said: str) -> None:
    done = fmha(*argv)
    assert (done.code, done.out, done.err) == (2, "", said)


def test_an_error_is_one_json_document(fmha: Fmha) -> None:
    done = fmha("list-kernels", "--arch", "gfx9999", "--json")
    assert done.code == 2
    assert done.document["schema"] == "fmha.error/1"
    assert done.document["error"]["code"] == "E005"
    assert done.document["error"]["exit_code"] == 2


@pytest.mark.parametrize("argv", ["list-kernels --backend cudnn_oss --arch {}", "archs {}", "explain -s 64 --arch {}"])
def test_a_product_stands_for_its_architecture(fmha: Fmha, argv: str) -> None:
    by_product, by_arch = (fmha(*argv.format(name).split(), "--json") for name in ("h100", "sm_90a"))
    assert by_product.document == by_arch.document


@pytest.mark.parametrize(
    "argv", [["run", "--json", "--sqelen", "4"], ["run", "--json", "--heads", "3", "--kv-heads", "2"]]
)
def test_an_error_of_a_report_command_is_a_report(fmha: Fmha, argv: list[str]) -> None:
    done = fmha(*argv)
    assert done.code == 2
    assert done.document["schema"] == "fmha.report/1"
    assert done.document["records"] == []
    assert done.document["error"]["what"]


def test_variables_and_files_count_and_are_named(fmha: Fmha) -> None:
    assert fmha("archs", FMHA_JSON="1").out.startswith("{")
    assert not fmha("archs", "--csv", FMHA_JSON="1").out.startswith("{")
    Path("fmha.toml").write_text("jsno = true")
    done = fmha("archs")
    assert done.code == 2
    assert "fmha.toml" in done.err
    assert "json" in done.err
    Path("fmha.toml").write_text("json = true")
    assert fmha("archs").out.startswith("{")
    assert not fmha("archs", FMHA_JSON="0").out.startswith("{")
    done = fmha("list-kernels", FMHA_ARCH="nope")
    assert done.code == 2


def test_archs_says_for_which_a_backend_needs_another_revision(fmha: Fmha) -> None:
    line = "gfx1100, gfx1151, gfx1250: ck_tile has no kernels by default, and some with --ck-rev 2026-08\n"
    assert fmha("archs").err == line
    assert fmha("archs", "gfx1151").err == line.replace("gfx1100, gfx1151, gfx1250", "gfx1151")
    assert fmha("archs", "gfx942").err == fmha("archs", "--json").err == ""


def test_errors_name_the_source_of_a_value(fmha: Fmha) -> None:
    done = fmha("plan", "--kv-heads", "4", FMHA_HEADS="9")
    assert "  --> --kv-heads; --heads (from FMHA_HEADS)\n" in done.err
    Path("fmha.toml").write_text("dropout = 2")
    done = fmha("plan")
    assert f"  --> --dropout (from {Path('fmha.toml').resolve()})\n" in done.err
    assert "--color (from FMHA_COLOR): never" in fmha("archs", "-v", FMHA_COLOR="never").err


def test_color(fmha: Fmha) -> None:
    plain = fmha("archs", "nope").err
    assert "\x1b[" not in plain
    colored = fmha("archs", "nope", "--color", "always", NO_COLOR="1").err
    assert colored.startswith("\x1b[31merror[E005]\x1b[0m")
    assert "\x1b[" not in fmha("archs", "nope", FMHA_COLOR="never").err


@pytest.mark.promise("Exit code 70: an internal error, with a bug-report block.")
def test_a_bug_prints_a_report_and_exits_70(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("the roof fell in")

    monkeypatch.setattr("fmha_cli.discovery.registry.Registry.arch_names", broken)
    done = fmha("archs", "--json")
    assert done.code == 70
    assert done.out == ""
    for word in ("RuntimeError: the roof fell in", "fmha archs --json", "python", "platform", "traceback"):
        assert word in done.err
    trace = Path(done.err.split("  traceback  ")[-1].strip())
    assert "the roof fell in" in trace.read_text()
    trace.unlink()


def test_a_broken_promise_is_a_bug_too(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise InternalError("arch_specs/ is missing")

    monkeypatch.setattr("fmha_cli.discovery.registry.Registry.arch_names", broken)
    done = fmha("archs")
    assert done.code == 70
    assert "arch_specs/ is missing" in done.err


def test_interruption(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fmha_cli.discovery.registry.Registry.arch_names", stop)
    assert fmha("archs").code == 130


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"import subprocess, sys; p = subprocess.Popen({[*PROGRAM, 'schema', 'report']!r}, stdout=subprocess.PIPE,"
    script += " stderr=subprocess.PIPE); p.stdout.close(); print(p.stderr.read().decode()); sys.exit(p.wait())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "")


def test_output_to_a_file_is_whole_or_absent(fmha: Fmha) -> None:
    done = fmha("archs", "--json", "-o", "archs.json")
    assert (done.code, done.out) == (0, "")
    assert json.loads(Path("archs.json").read_text())["schema"] == "fmha.archs/1"
    done = fmha("archs", "-o", "no/such/folder.json")
    assert done.code == 4
    assert "cannot be written" in done.err
    assert [p.name for p in Path.cwd().iterdir()] == ["archs.json"]


def test_switches_can_be_taken_back(fmha: Fmha) -> None:
    assert not fmha("archs", "--no-json", FMHA_JSON="1").out.startswith("{")
    assert "--no-json" not in fmha("archs", "--help").out


@pytest.mark.parametrize("argv", [["-q", "archs"], ["archs", "-q"], ["--quiet", "archs", "--json"]])
def test_talk_options_stand_before_or_after_the_command(fmha: Fmha, argv: list[str]) -> None:
    assert fmha(*argv).code == 0


def test_run_is_the_entry_point() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "fmha 0.1.0\n")
    with pytest.raises(SystemExit):
        app.main()


def test_a_plugin_adds_a_command(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def hello(name: str = "world") -> int:
        """Greet."""
        print(f"hello {name}")
        return 3

    monkeypatch.setattr("fmha_cli.cli.parser.plugin_commands", lambda: {"hello": hello, "run": hello})
    done = fmha("hello", "--name", "you")
    assert (done.code, done.out) == (3, "hello you\n")
    assert "Greet." in fmha("hello", "--help").out
    assert "did you mean hello?" in fmha("helo").err
    assert "Greet" not in fmha("run", "--help").out
