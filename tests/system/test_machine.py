"""What the system says about the machine."""

from __future__ import annotations

import platform
import subprocess
import sys

from fmha_cli.system.machine import platform_text


def test_the_platform_is_what_python_calls_it() -> None:
    assert platform_text() == platform.platform()


def test_the_platform_needs_no_process() -> None:
    code = (
        "import subprocess, sys\n"
        "def none(*words, **options): raise AssertionError(words)\n"
        "subprocess.check_output = subprocess.Popen = none\n"
        "from fmha_cli.system.machine import platform_text\n"
        "print(platform_text())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == platform.platform()
