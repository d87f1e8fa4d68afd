"""House rules that a machine can check: import direction, sizes, forbidden words."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.backends import cuda
from fmha_cli.backends.cuda.small import SmallUpstream
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.gpu.upstream import Upstream

pytestmark = pytest.mark.promise("Each package imports only the packages that the architecture page allows.")

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fmha_cli"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
GUIDE = cuda.__doc__ or ""
"""The guide to a further backend of CUDA kernels."""
IMPORTS = "## Packages and their imports"
ROW = re.compile(r"^\| `([\w/]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def table_of(page: str) -> dict[str, set[str]]:
    """Room -> the rooms that it may import, from the table of docs/explanation/architecture.md."""
    section = page.split(IMPORTS)[1].split("\n## ")[0]
    return {room: set(re.findall(r"`([\w/]+)`", allowed)) for room, allowed in ROW.findall(section)}


MAY_IMPORT = table_of(PAGE.read_text("utf-8"))


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


def room_of(parts: Sequence[str]) -> str:
    """The room of a module: the longest table row that is a prefix of its path."""
    whole = "/".join(parts).removesuffix(".py")
    fitting = [room for room in MAY_IMPORT if whole == room or whole.startswith(f"{room}/")]
    return max(fitting, key=len, default=parts[0].removesuffix(".py"))


def room_of_file(path: Path) -> str:
    return room_of(path.relative_to(PACKAGE).parts)


@cache
def imported_modules(path: Path) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The package's modules that a file imports, without the package name. Several tests ask, and a parse takes long."""
    return tuple(imported_modules_of(path.read_text("utf-8")))


def imported_modules_of(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Like ``imported_modules``, for a module's text."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = node.module == "fmha_cli"
            names = [f"fmha_cli.{a.name}" for a in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            parts = tuple(name.split("."))
            if parts[0] == "fmha_cli" and parts[1:] not in ((), ("__version__",)):
                yield parts[1:], node.lineno


def imported_rooms(path: Path) -> Iterator[tuple[str, int]]:
    for parts, line in imported_modules(path):
        yield room_of(parts), line


LATE = {
    "numpy, and what computes with it (60 to 110 ms)": (
        *("run.attention", "run.events", "run.given_arrays", "run.given_cache", "run.input_files"),
        *("run.refusals", "run.run", "run.session", "run.supervisor", "run.tuned_choice", "cli.delivery"),
        *("backends.cuda.copies", "backends.cpu.session"),
        *("backends.gpu.arena_views", "backends.gpu.auxiliary", "backends.gpu.host_side"),
    ),
    "building: compilers, the cache, code that writes code (7 to 50 ms)": (
        *("backends.ck_tile.building", "toolchain.kernels", "codegen.cuda", "sources.store"),
    ),
    "a backend's rules and choices, which a list of kernels does without (2 to 20 ms)": (
        *("backends.ck_tile.decide", "backends.ck_tile.plan"),
        "backends.ck_tile.catalogue",
        *("backends.cuda.scratch", "backends.flash_attn.kernel_rules"),
        "backends.flash_attn.problem_rules",
    ),
    "what single commands ask of a backend (3 to 20 ms)": ("backends.hip.runtime",),
    "sqlite3, and what rows are made of (13 to 25 ms)": (
        *("results.loading", "results.place", "results.store", "results.tuned"),
    ),
    "tables and documents, which a number or a text does without (8 to 30 ms)": (
        *(
            "report.documents.kernels",
            "report.documents.report",
            "report.drawing",
            "report.formats",
            "report.shaping",
        ),
        *("report.target", "cli.explain_problem", "pages.terminal"),
    ),
    "a command, which help does without (15 to 25 ms)": (
        *("cli.app", "cli.completion", "cli.failure", "cli.invoke", "cli.progress"),
    ),
    "plugins, models and workloads, where nothing asks for them (5 to 14 ms)": (
        *("cli.workloads", "discovery.entry_points", "discovery.models", "discovery.registry", "run.kernel_tables"),
    ),
    "problems, which the refusal of an unknown kernel does without (40 ms)": (
        *("cli.on_change", "cli.problems", "run.process"),
    ),
    "two modules that need each other": ("domain.spoken",),
}
"""Kinds of imports inside of functions: what each saves, and the modules that may be imported so."""

LATE_COUNTS = {"__main__": 1, "api": 4, "backends": 22, "cli": 39, "domain": 3, "run": 1, "sweeps": 3, "toolchain": 2}
"""Imports inside of functions by room. A number may only fall."""

BY_NAME = {
    "api.py": "names of the API, when they are asked for",
    "plugin.py": "likewise",
    "backends/ck_tile/parity/listed_generate.py": "upstream's own generator",
    "domain/own.py": "a method of a backend, on its first use",
    "backends/host/library.py": "the session of a library's backend, in the worker",
    "cli/command.py": "what a command does",
    "cli/commands/__init__.py": "what a command takes",
    "discovery/builtins.py": "the table of built-in backends; to find it as an entry point would cost every command 20 ms",
    "discovery/plugins.py": "plugins",
    "domain/installation.py": "libraries that may be missing",
    "report/document.py": "the module of a document's name",
    "system/locks.py": "a module of one operating system",
    "system/usage.py": "likewise",
}
"""The modules that import others by name, and which."""


def late_imports_of(text: str) -> list[str]:
    """The modules of the package that a text imports inside of functions, once for each statement."""
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    nodes = {id(node): node for function in functions for node in ast.walk(function)}
    found = (
        node.module if isinstance(node, ast.ImportFrom) and node.module else node.names[0].name
        for node in nodes.values()
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    return [name.removeprefix("fmha_cli.") for name in found if name.partition(".")[0] == "fmha_cli"]


def test_imports_inside_of_functions_are_of_a_kind_that_saves_time_and_only_become_fewer() -> None:
    may = {name for names in LATE.values() for name in names}
    counts: dict[str, int] = {}
    used = set()
    for path in modules():
        found = late_imports_of(path.read_text("utf-8"))
        used |= set(found)
        assert set(found) <= may, f"{path}: import it at the top, or measure what that costs and add it to a kind"
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        counts[room] = counts.get(room, 0) + len(found)
    assert {room: count for room, count in counts.items() if count} == LATE_COUNTS
    assert used == may


def test_an_import_inside_of_a_function_is_seen() -> None:
    text = "import fmha_cli.a\ndef f():\n    from fmha_cli.b import c\n    def g():\n        import fmha_cli.d, json\n"
    assert late_imports_of(text) == ["b", "d"]
    assert late_imports_of("class A:\n    def f(self):\n        from fmha_cli import e") == ["fmha_cli"]


def test_modules_that_import_others_by_name_are_known() -> None:
    texts = {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in modules()}
    assert {name for name, text in texts.items() if re.search(r"(?<!def )\bimport_module\(", text)} == BY_NAME.keys()


def test_every_room_has_a_row_and_every_row_a_room() -> None:
    stand = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in modules()} - {"__init__"}
    assert {row for row in MAY_IMPORT if "/" not in row} == stand
    for row in MAY_IMPORT:
        assert (PACKAGE / row).is_dir() or (PACKAGE / f"{row}.py").is_file(), row
        assert MAY_IMPORT[row] <= MAY_IMPORT.keys(), row


def test_the_rooms_are_in_layers() -> None:
    """No two rooms may import each other, directly or through others."""
    left = dict(MAY_IMPORT)
    while left:
        free = [room for room, allowed in left.items() if not allowed & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        left = {room: allowed for room, allowed in left.items() if room not in free}


def wrong_imports(path: Path) -> list[str]:
    """The rooms that a module imports and may not."""
    room = room_of_file(path)
    if room == "__init__":
        return []
    return [f"line {line}: {name}" for name, line in imported_rooms(path) if name not in MAY_IMPORT[room] | {room}]


@pytest.mark.slow
@pytest.mark.ci
def test_import_direction() -> None:
    found = {str(path.relative_to(ROOT)): wrong_imports(path) for path in modules()}
    assert len(found) > 500
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(("page", "found"), [("", set()), ("| `codegen` | text | `domain` |", {"domain"})])
def test_the_table_is_read_from_the_page(page: str, found: set[str]) -> None:
    head = f"{IMPORTS}\n\n| package | job | may import |\n|---|---|---|\n"
    assert table_of(f"{head}{page}\n\n## Next\n| `oracle` | x | `cli` |\n").get("codegen", set()) == found


def files_named(page: str, head: str) -> set[str]:
    """The files and folders that a page names in backticks after a heading; a name with a star is a pattern."""
    found = re.findall(r"`([\w.*/-]+/[\w.*-]*)`", page.split(head)[1])
    return {name for name in found if "NAME" not in name and "NNNN" not in name} - {"fmha.arch/1", "src/"}


def is_there(name: str) -> bool:
    return any(next(root.glob(name.rstrip("/")), None) is not None for root in (ROOT, PACKAGE, PACKAGE / "backends"))


@pytest.mark.parametrize(
    ("page", "head", "least"),
    [(PAGE.read_text("utf-8"), "## One problem, step by step", 40), (GUIDE, "### Files", 50)],
    ids=("page", "guide"),
)
def test_the_page_names_files_that_exist(page: str, head: str, least: int) -> None:
    names = files_named(page, head)
    assert len(names) > least
    assert [name for name in sorted(names) if not is_there(name)] == []


EXAMPLES = (
    (GUIDE, "### Files", {"NAME": "mem_efficient"}, 25),
    (GUIDE, "The smallest `SmallUpstream`", {"NAME": "cudnn_oss"}, 9),
    (GUIDE, "A `CubinUpstream` answers", {"NAME": "flash_attn"}, 5),
    (PAGE.read_text("utf-8"), "**A framework backend**", {"NAME": "example"}, 3),
    (PAGE.read_text("utf-8"), "**An AMD architecture**", {"gfxNNNN": "gfx942"}, 5),
)
"""The lists of files to add: page, heading, the placeholder's value in an existing example, and the minimum of files."""


def listed(page: str, head: str, names: Mapping[str, str]) -> list[str]:
    """The files in the first column of the first table after a heading, with the placeholders filled in."""
    found = re.findall(r"^\| (`[^|]+) \|", page.split(head)[1].split("\n|---|---|\n")[1].split("\n\n")[0], re.MULTILINE)
    text = " ".join(found)
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize(("page", "head", "names", "rows"), EXAMPLES, ids=lambda value: str(value)[-24:])
def test_what_a_list_says_to_add_is_there_in_the_example(
    page: str, head: str, names: Mapping[str, str], rows: int
) -> None:
    """An outdated list, or one with a file that no backend has, would mislead the next author."""
    found = listed(page, head, names)
    assert len(found) >= rows
    assert [name for name in found if "/" not in name or not (is_there(name) or name == "src/")] == []


def test_the_list_of_a_backend_is_read_with_its_placeholders() -> None:
    page = "## Head\ntext\n| file | content |\n|---|---|\n| `a/NAME/x.py`, `a/NAME/` | `b/c.py` |\n\n| `d/e.py` | |\n"
    assert listed(page, "## Head", {"NAME": "one"}) == ["a/one/x.py", "a/one/"]


def test_a_file_that_is_gone_is_noticed() -> None:
    assert not is_there("run/gone.py")
    assert files_named("`a/b`\n## Head\n`run/gone.py` `backends/NAME/plan.py` `--mask`", "## Head") == {"run/gone.py"}


@pytest.mark.parametrize(
    ("kind", "given"), [(Upstream, None), (CubinUpstream, Upstream), (SmallUpstream, CubinUpstream)]
)
def test_the_members_of_an_upstream_are_explained(kind: type, given: type | None) -> None:
    """The plugin API shows these texts to the next author."""
    public = {name for name in (*kind.__annotations__, *vars(kind)) if not name.startswith("_")} - set(dir(given))
    attributes = (kind.__doc__ or "").split("Attributes:")[1]
    assert public
    assert [
        name
        for name in sorted(public)
        if not re.search(rf"^ +(\w+, )?{name}[,:]", attributes, re.MULTILINE)
        and not (callable(vars(kind).get(name)) and vars(kind)[name].__doc__)
    ] == []


def test_backends_do_not_import_each_other() -> None:
    for path in (p for p in modules() if room_of_file(p) == "backends" and p.parent != PACKAGE / "backends"):
        own = path.relative_to(PACKAGE).parts[1]
        for parts, line in imported_modules(path):
            if room_of(parts) == "backends" and len(parts) > 2:
                assert parts[1] == own, f"{path.relative_to(ROOT)}:{line} imports another backend, {parts[1]}"


def test_nothing_imports_a_backend_statically() -> None:
    """Shared rooms are not backends; the table says who may import them."""
    for path in modules():
        if not room_of_file(path).startswith("backends"):
            assert "backends" not in {name for name, _ in imported_rooms(path)}, path


def test_plugins_import_the_stable_names_alone() -> None:
    sources = sorted((ROOT / "plugins").glob("*/src/**/*.py"))
    assert sources
    for path in sources:
        assert {name for name, _ in imported_rooms(path)} <= {"api", "plugin"}, path


@pytest.mark.parametrize("path", sorted((PACKAGE / "toolchain/cache").glob("*.py")), ids=lambda p: p.stem)
def test_the_cache_knows_nothing_of_attention(path: Path) -> None:
    """The cache stores any compiled text. Its part of the domain: encodings, errors, Artifact, the opening of files. It may
    ask the operating system."""
    text = path.read_text("utf-8").replace("from fmha_cli.domain.plan import Artifact\n", "")
    for parts, line in imported_modules_of(text):
        encodings = {("domain", "codec"), ("domain", "encode"), ("domain", "members")}
        neutral = parts[:1] == ("system",) or parts[:2] in {
            *encodings,
            ("domain", "errors"),
            ("domain", "regular"),
            ("toolchain", "cache"),
        }
        assert neutral or parts in {("toolchain", "cpp", "toolchain"), ("toolchain", "notice")}, f"line {line}: {parts}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "domain").glob("*.py")), ids=lambda p: p.stem)
def test_domain_needs_the_standard_library_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for found in names:
            top = found.split(".")[0]
            assert top in sys.stdlib_module_names or top == "fmha_cli", f"{path}: {found}"


def test_sizes() -> None:
    sizes = {p: len(p.read_text("utf-8").splitlines()) for p in modules()}
    assert max(sizes.values()) <= 400, [str(p) for p, n in sizes.items() if n > 400]
    assert statistics.median(sizes.values()) <= 140


def called(node: ast.Call, names: frozenset[str]) -> str | None:
    """Which of these dotted names a call has. Only a candidate is written out: that takes longer than the parse."""
    func = node.func
    last = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if not any(name.rpartition(".")[2] == last for name in names):
        return None
    name = ast.unparse(func)
    return name if name in names else None


BANNED = frozenset({"eval", "exec", "os.system", "os.popen", "sys.path.insert", "sys.path.append"})
ENDS = frozenset({"print", "sys.exit", "exit", "os._exit"})


MAY_BE_BANNED = re.compile(
    r"\b(eval|exec|shell|pickle|dill|cloudpickle|marshal)\b"
    r"|\bos\s*\.\s*(system|popen)\b|\bpath\s*\.\s*(insert|append)\b|\bexcept\s*:"
)
"""Without one of these words, no text has what is banned: most files need no syntax tree."""


def banned_calls(tree: ast.AST) -> Iterator[str]:
    """Calls that this project does not use, found in the syntax tree and not in the text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if name := called(node, BANNED):
                yield name
            if any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords):
                yield "shell="
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield "bare except"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
            yield from (f"import {n}" for n in names if n.split(".")[0] in ("pickle", "dill", "cloudpickle", "marshal"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("eval('1')", ["eval"]),
        ("import os\nos.system('x')", ["os.system"]),
        ("run(x, shell=True)", ["shell="]),
        ("try:\n  pass\nexcept:\n  pass", ["bare except"]),
        ("from pickle import load", ["import pickle"]),
        ("import sys\nsys.path.insert(0, 'x')", ["sys.path.insert"]),
    ],
)
def test_the_ban_sees_what_it_bans(text: str, found: list[str]) -> None:
    assert list(banned_calls(ast.parse(text))) == found


@pytest.mark.parametrize(
    "text", ["eval", "os . popen", "sys.path.insert(0, y)", "run(x, shell = y)", "except :", "import dill"]
)
def test_a_text_that_may_hold_what_is_banned_is_parsed(text: str) -> None:
    assert MAY_BE_BANNED.search(f"x = 1\n{text}")


def test_no_banned_calls() -> None:
    files = [*modules(), *(ROOT / "plugins").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    texts = {str(path): path.read_text("utf-8") for path in files}
    found = {p: list(banned_calls(ast.parse(text))) for p, text in texts.items() if MAY_BE_BANNED.search(text)}
    assert not {path: names for path, names in found.items() if names}


def test_only_cli_prints_or_exits() -> None:
    for path in modules():
        if room_of_file(path) == "cli" or path.name in ("__main__.py", "worker.py"):
            continue
        text = path.read_text("utf-8")
        if "print" not in text and "exit" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (name := called(node, ENDS)):
                pytest.fail(f"{path.relative_to(ROOT)}:{node.lineno} {name}")


def test_words_of_the_repository() -> None:
    """No tracked file contains a machine path or the host of a package registry."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(/[w]ork/|/[t]mp/bash_jobs|https?://[^\s]*py(?:pi|thonhosted))")
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.suffix in (".py", ".md", ".toml", ".json", ".h", ".cpp", "") and path.is_file():
            found = pattern.search(path.read_text("utf-8", errors="replace"))
            assert found is None, f"{name}: {found and found[0]}"


def test_no_conflict_is_committed() -> None:
    """C++ of the generator is text: no linter reads it, and a conflict in it would fail in the compiler alone."""
    listed = subprocess.run(
        ["git", "grep", "-lIE", "^(<{7}|>{7}) "], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode > 1:
        pytest.skip("not a git checkout")
    assert listed.stdout.split() == []


def test_no_mutable_module_state() -> None:
    """Module-level lists, dicts and sets are named as constants, and nothing rebinds a global."""
    for path in modules():
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "global" in text else ():
            assert not isinstance(node, ast.Global), f"{path}:{node.lineno} global"
