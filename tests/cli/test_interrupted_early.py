"""Ctrl-C before a command has rows: one word, exit code 130, no traceback."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import Any

import pytest

from fmha_cli.__main__ import main
from tests.cli.conftest import Fmha


def interrupt(*given: object, **more: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("argv", ["run -s 8 -d 8", "explain -s 8 -d 8", "doctor", "devices"])
def test_a_command_that_has_no_rows_yet_says_so(fmha: Fmha, monkeypatch: pytest.MonkeyPatch, argv: str) -> None:
    monkeypatch.setattr("fmha_cli.discovery.registry.Registry.__init__", interrupt)
    done = fmha(*argv.split())
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_so_do_files_of_settings(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.cli.config.project_file", interrupt)
    done = fmha("archs")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_the_imports_of_the_command_end_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gc.set_threshold", lambda count: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    real = builtins.__import__
    monkeypatch.setattr(
        builtins, "__import__", lambda name, *rest: interrupt() if name == "fmha_cli.cli.app" else real(name, *rest)
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_after_the_end_changes_no_exit_code() -> None:
    late = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)"
    start = f"{late}; import sys; sys.argv = ['fmha', 'archs', 'gfx942']; from fmha_cli.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "MI300X" in done.stdout
