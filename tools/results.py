"""The pages under ``results/``: their form, the tables that come from data, and the list of them.

    python -m tools.results write             # make the tables of all pages from their data, and the list results/README.md
    python -m tools.results check             # say what is wrong with pages, data and list; exit code 1 if anything is
    python -m tools.results show NAME         # print results/data/NAME.json.xz
    python -m tools.results save NAME FILE    # make a JSON document results/data/NAME.json.xz

A page begins with a title, a sentence and a table that says what was measured, on which processor, at which revision, by
which command, and where the data is. A page has at most ``WORDS`` words outside of fenced code, and all data together have
at most ``BYTES`` bytes. What stands between ``<!-- table NAME -->`` and ``<!-- end -->`` is made from data by a function of
``tools/result_tables.py``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.result_data import RESULTS, data_of, read_json, table, write_json
from tools.result_tables import TABLES

WORDS, BYTES = 1000, 1_000_000
HEAD = ("measured", "processor", "revision", "command", "data")
INDEX = "README.md"
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (\w+) \| (.+) \|$", re.MULTILINE)
_BLOCK = re.compile(r"(<!-- table ([\w.]+) -->)\n.*?(<!-- end -->)", re.DOTALL)
_DATA = re.compile(r"\(data/([\w.-]+)\)")
_SCRIPT = re.compile(r"python3? (?:-m pytest (?:-m \w+ )?)?((?:benchmarks|tests|plugins|tools)/[\w/.-]+)")
_MODULE = re.compile(r"python3? -m ((?:tests|tools)[\w.]*)")


def words_of(text: str) -> int:
    """The words of a page outside of fenced code, as ``wc -w`` counts them."""
    return len(_FENCE.sub("", text).split())


def scripts_of(text: str) -> list[str]:
    """The scripts and modules that the commands of a page run, as files or folders."""
    return sorted({*_SCRIPT.findall(text), *(name.replace(".", "/") for name in _MODULE.findall(text))})


def renewed(text: str) -> str:
    """A page whose tables are made again from their data."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n\n{TABLES[found[2]]()}\n\n{found[3]}", text)


def index(folder: Path = RESULTS) -> str:
    """The list of the pages, made of their titles and heads."""
    rows = []
    for path in _pages(folder):
        title, _, text = path.read_text("utf-8").partition("\n")
        head = dict(_ROW.findall(text))
        rows.append((f"[{title.removeprefix('# ')}]({path.name})", head.get("measured")))
    parts = (
        "# Results",
        "Every figure here was measured. Each page says what was measured, on which processor, at which revision and by "
        "which command. No figure of an emulated device is a time of a GPU.",
        "The raw data are compressed JSON documents in `results/data`. Python's standard library reads them, and so does `xz -dc`:",
        "```bash\npython -m tools.results show store\n```",
        table(("page", "measured"), rows),
    )
    return "\n\n".join(parts) + "\n"


def faults(folder: Path = RESULTS) -> Iterator[str]:
    """What is wrong with the pages, their data and their list."""
    named: set[str] = set()
    for path in _pages(folder):
        text = path.read_text("utf-8")
        head = dict(_ROW.findall(text.partition("\n## ")[0]))
        if missing := [name for name in HEAD if name not in head]:
            yield f"{path.name}: the table at its head has no {', '.join(missing)}"
        if renewed(text) != text:
            yield f"{path.name}: a table differs from its data: python -m tools.results write"
        for name in scripts_of(text):
            place = folder.parent / name
            if not place.exists() and not place.with_suffix(".py").exists():
                yield f"{path.name}: no script {name}"
        named |= set(_DATA.findall(text))
    for path in folder.glob("*.md"):
        if (count := words_of(path.read_text("utf-8"))) > WORDS:
            yield f"{path.name}: {count} words, more than {WORDS}"
    held = sorted((folder / "data").iterdir())
    names = {path.name for path in held}
    yield from (f"no data {name}, which a page names" for name in sorted(named - names))
    yield from (f"data/{name}: no page names it" for name in sorted(names - named))
    if (size := sum(path.stat().st_size for path in held)) > BYTES:
        yield f"data: {size} bytes, more than {BYTES}"
    for path in held:
        try:
            read_json(path)
        except (ValueError, lzma.LZMAError) as error:
            yield f"data/{path.name} cannot be read: {error}"
    if (folder / INDEX).read_text("utf-8") != index(folder):
        yield f"{INDEX} is stale: python -m tools.results write"


def write(folder: Path = RESULTS) -> None:
    """Make the tables and the list of pages again."""
    for path in _pages(folder):
        path.write_text(renewed(path.read_text("utf-8")), "utf-8")
    (folder / INDEX).write_text(index(folder), "utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns 1 if ``check`` finds a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write", help="make tables and list again")
    commands.add_parser("check", help="say what is wrong")
    for command in ("show", "save"):
        commands.add_parser(command).add_argument("name", help="a file of results/data, without .json.xz")
    commands.choices["save"].add_argument("file", type=Path, help="a JSON document")
    given = parser.parse_args(argv)
    if given.command == "show":
        print(json.dumps(data_of(given.name), indent=1))
    elif given.command == "save":
        write_json(RESULTS / "data" / f"{given.name}.json.xz", read_json(given.file))
    elif given.command == "write":
        write()
    else:
        found = list(faults())
        print("\n".join(found or ["results: nothing is wrong"]))
        return int(bool(found))
    return 0


def _pages(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.md") if path.name != INDEX)


if __name__ == "__main__":
    sys.exit(main())
