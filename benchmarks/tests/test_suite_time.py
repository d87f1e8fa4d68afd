"""``suite_time.py`` adds to a ``.ci/run`` what it reads of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from suite_time import ROOT, STAGE, instrumented, measured

OLD = """work=$1
stage() { # stage NAME COMMAND...: run it, print its seconds
    local name=$1 start=$SECONDS status=0
    shift
    printf '\\n=== %s\\n' "$name"
    "$@" || status=$?
    printf '=== %s: %d s%s\\n' "$name" "$((SECONDS - start))" "$([ "$status" = 0 ] || echo " FAILED ($status)")"
    return "$status"
}
set -e
stage one python3 -c 'sum(range(10**6))'
stage two false
stage three true
"""


def test_stages_print_what_they_took_and_a_failed_one_ends_nothing(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text(instrumented(OLD), "utf-8")
    done = subprocess.run(["bash", str(script), str(tmp_path)], capture_output=True, text=True, check=True)
    found = STAGE.findall(done.stdout)
    assert [(name, rest) for name, _, _, rest in found] == [("one", ""), ("two", " FAILED (1)"), ("three", "")]


def test_todays_script_is_read() -> None:
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    once = instrumented(text)
    assert once.count("taken()") == text.count("taken()") == 1
    assert instrumented(once) == once
    with pytest.raises(ValueError, match=r"a \.ci/run without one"):
        instrumented(OLD.replace('return "$status"', "return 1"))


def test_a_command_is_timed_with_what_it_starts(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(10**7))'], check=True)"
    took = measured(["python3", "-c", code], tmp_path, {"PATH": "/usr/bin:/bin:/usr/local/bin"}, tmp_path / "log")
    assert took["processor_s"] > 0
