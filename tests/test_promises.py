"""``docs/reference/promises.md`` lists what tests hold: README promises nothing else, and every protection belongs to a promise."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from fmha_cli.domain.fields import BY_KEY
from tools.reference import promises
from tools.reference.promises import README, Promise

ROOT = Path(__file__).resolve().parent.parent
EVERY = promises.promises()
QUOTES = [one.text.removeprefix(README) for one in EVERY if one.text.startswith(README)]
_SENTENCE = re.compile(r"(?<=[.?!:])\s+(?=[A-Z`\[])")


def flat(text: str) -> str:
    return " ".join(text.split())


def sentences(readme: str) -> list[str]:
    """The sentences and the rows of tables, without headings, blocks of code, heads of tables, and sentences that are links."""
    prose = re.sub(r"^```.*?^```$", "\n", readme, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^(#.*|\|.*\n\|-.*)$", "\n", prose, flags=re.MULTILINE)
    prose = re.sub(r"^(?=- |\|)", "\n", prose, flags=re.MULTILINE)
    paragraphs = [flat(part) for part in re.split(r"\n\s*\n", prose) if part.strip()]
    every = [one for part in paragraphs for one in ([part] if part[0] in "-|" else _SENTENCE.split(part))]
    return [one for one in every if not one.startswith(("[", "- ["))]


def unpromised(readme: str) -> list[str]:
    """The sentences of README that no quote covers."""
    return [one for one in sentences(readme) if not any(quote in one for quote in QUOTES)]


def test_every_sentence_of_readme_is_promised() -> None:
    assert unpromised((ROOT / "README.md").read_text("utf-8")) == []


def test_every_quote_stands_in_readme() -> None:
    readme = flat((ROOT / "README.md").read_text("utf-8"))
    assert [quote for quote in QUOTES if quote not in readme] == []


@pytest.mark.promise(
    "README: | 1 | sequences |",
    "README: | 8 | query heads",
    "README: | 1024 | tokens in a sequence",
    "README: | 128 | elements in a head |",
)
def test_the_flags_of_readme_have_their_defaults() -> None:
    rows = re.findall(r"^\| `--(\S+)` \| `-(\S)` \| (\d+) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 4
    for name, short, default in rows:
        flag = BY_KEY[name]
        assert (flag.short, f"[default: {default}]") == (short, re.findall(r"\[default: \d+]", flag.help)[0])


@pytest.mark.promise("README: No real GPU has run these kernels yet")
def test_no_kernel_is_confirmed_on_a_gpu() -> None:
    assert json.loads((ROOT / "arch_specs" / "_preference.json").read_text("utf-8"))["confirmed"] == []


def test_every_protected_line_is_a_promise() -> None:
    lines = tomllib.loads((ROOT / "tests" / "faults" / "mends.toml").read_text("utf-8"))["lines"]
    assert [line for line in lines.values() if line not in {one.text for one in EVERY}] == []


def test_a_sentence_that_promises_something_else_is_noticed() -> None:
    readme = "# A\n\nIt makes coffee. [Read](x.md) on:\n\n```bash\nfmha. A\n```\n\n| a | b |\n|---|---|\n| 0 | good |\n- [x](y): an item.\n"
    assert unpromised(readme) == sentences(readme) == ["It makes coffee.", "| 0 | good |"]
    assert unpromised("You can trust: Did my change slow anything down?") == ["You can trust:"]


MODULE = """import pytest

pytestmark = [pytest.mark.slow, pytest.mark.promise("Of the module.")]


@pytest.mark.promise("One.", "Two.")
@pytest.mark.slow
def test_first() -> None: ...


@pytest.mark.promise("Two.")
def test_second() -> None: ...
"""


def test_markers_are_read_from_the_text(tmp_path: Path) -> None:
    module = tmp_path / "plugins" / "fmha-x" / "tests" / "test_x.py"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE, "utf-8")
    file = "plugins/fmha-x/tests/test_x.py"
    assert promises.promises(tmp_path) == [
        Promise("Of the module.", (file,)),
        Promise("One.", (f"{file}::test_first",)),
        Promise("Two.", (f"{file}::test_first", f"{file}::test_second")),
    ]
    assert {one.area for one in promises.promises(tmp_path)} == {"Plugins and emulators"}


@pytest.mark.parametrize("mark", ["promise()", "promise(TEXT)", "promise('a', why='b')"])
def test_a_marker_without_a_text_is_refused(tmp_path: Path, mark: str) -> None:
    module = tmp_path / "tests" / "test_x.py"
    module.parent.mkdir()
    module.write_text(f"@pytest.mark.{mark}\ndef test_x() -> None: ...\n", "utf-8")
    with pytest.raises(ValueError, match="a promise is a text"):
        promises.promises(tmp_path)
