"""The index of kernels: it says where to look, and nothing that it says is believed without looking."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.discovery.finding import find_kernel
from fmha_cli.discovery.kernel_index import EVERY, make_table, places_by_digest, places_by_name, refuse_unknown
from fmha_cli.discovery.registry import BUILTINS, Registry
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.tuning import Varied
from fmha_cli.run import kernel_tables
from fmha_cli.run.kernel_tables import MAGIC, StoredTables

ARCHS = ("gfx1201", "x86_64_v4")
NOWHERE = "0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def look(root: Path, said: list[str]) -> Callable[[str], KernelSpec | None]:
    """Look a kernel up as a fresh process does."""

    def look(text: str) -> KernelSpec | None:
        registry = Registry(entries=lambda: (), tables=lambda: StoredTables(root, said.append))
        return find_kernel(registry, registry.backends.values(), text, ARCHS)

    return look


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[KernelSpec]:
    """The kernels of which somebody asked the digest."""
    found: list[KernelSpec] = []
    original = KernelSpec.digest.fget
    assert original is not None
    monkeypatch.setattr(KernelSpec, "digest", property(lambda self: found.append(self) or original(self)))
    return found


@cache
def some() -> tuple[KernelSpec, ...]:
    registry = Registry(entries=lambda: ())
    asked = [(arch, backend) for arch in ARCHS for backend in registry.backends.values() if arch in backend.archs()]
    return tuple(k for arch, backend in asked for k in list(backend.kernels(registry.arch(arch)))[::997])


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the index of every kernel."""
    root = tmp_path_factory.mktemp("index") / "cache"
    registry = Registry(entries=lambda: (), tables=lambda: StoredTables(root, print))
    with pytest.raises(UsageError):
        find_kernel(registry, registry.backends.values(), NOWHERE, ARCHS)
    return root


@pytest.fixture
def indexed(root: Path, made_once: Path) -> None:
    """A cache of the test's own with the index of every kernel. To make it takes most of a second."""
    shutil.copytree(made_once, root)


def missing(look: Callable[[str], KernelSpec | None], text: str) -> bool:
    with pytest.raises(UsageError) as caught:
        look(text)
    return caught.value.code == "E006"


@pytest.mark.slow
@pytest.mark.ci
def test_what_the_scan_finds_the_index_finds(look: Callable[[str], KernelSpec | None], said: list[str]) -> None:
    registry = Registry(entries=lambda: ())
    assert missing(look, NOWHERE)
    assert said == ["looking through all kernels once, for an index of them in the cache"]
    for kernel in some():
        assert look(kernel.digest[:12]) == kernel
        assert look(kernel.digest) == kernel
        name = registry.backend(kernel.backend).upstream_name(kernel)
        assert name is None or look(name) == kernel
    assert missing(look, NOWHERE)
    assert missing(look, "no_such_kernel_of_upstream")
    assert len(said) == 1, "the index is made once"


@pytest.mark.promise("An index of kernels that is damaged, foreign or wrong changes no answer.")
def test_a_wrong_prefix_asks_no_kernel_and_a_right_one_asks_few(
    look: Callable[[str], KernelSpec | None], made: list[KernelSpec]
) -> None:
    kernel = some()[0]
    assert missing(look, NOWHERE)
    assert len(made) > 5000
    made.clear()
    assert missing(look, NOWHERE)
    assert made == []
    digest = kernel.digest
    made.clear()
    assert look(digest[:10]) == kernel
    assert len(made) <= 3


@pytest.fixture(scope="module")
def joined_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the table of all digests, which a miss among all kernels makes."""
    root = tmp_path_factory.mktemp("joined") / "cache"
    registry = Registry(entries=lambda: (), tables=lambda: StoredTables(root, print))
    with pytest.raises(UsageError):
        find_kernel(registry, registry.backends.values(), NOWHERE, registry.arch_names())
    return root


def refused(root: Path, *texts: str) -> list[str]:
    """The texts that a fresh process refuses without looking at any kernel."""
    tables, found = StoredTables(root, print), []
    for text in texts:
        try:
            refuse_unknown(text, tables)
        except UsageError:
            found.append(text)
    return found


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.promise("An index of kernels that is damaged, foreign or wrong changes no answer.")
def test_only_digests_of_no_kernel_are_refused_at_once(joined_once: Path) -> None:
    registry = Registry(entries=lambda: ())
    for backend in registry.backends.values():
        for arch in map(registry.arch, backend.archs()):
            variants = backend.variants(arch) if isinstance(backend, Varied) else ()
            assert refused(joined_once, *(k.digest for k in [*backend.kernels(arch), *variants][::99])) == []
    none = (NOWHERE, NOWHERE.upper()[:8])
    assert refused(joined_once, *none, NOWHERE[:7], "no_such_kernel_of_upstream") == [*none]


def test_a_search_among_some_kernels_knows_nothing_of_the_others(root: Path, indexed: None) -> None:
    assert not (root / "kernels" / "-".join(EVERY)).exists()
    assert not refused(root, NOWHERE)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.promise("An index of kernels that is damaged, foreign or wrong changes no answer.")
def test_a_damaged_or_old_table_of_all_digests_refuses_nothing(
    joined_once: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(joined_once, root)
    path = root / "kernels" / "-".join(EVERY)
    whole = path.read_bytes()
    for name, damage in DAMAGES.items():
        path.write_bytes(damage(whole))
        assert bool(refused(root, NOWHERE)) == (name == "a lie"), name  # which moves places alone
    path.write_bytes(whole)
    assert refused(root, NOWHERE)
    monkeypatch.setattr(StoredTables, "key", hashlib.sha256(b"another version").digest())
    assert not refused(root, NOWHERE)


def flip(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def lie(data: bytes) -> bytes:
    """An index that is whole and of this version, but names other places."""
    head = len(MAGIC) + 32
    table = make_table((digest, None) for digest in [hashlib.sha256(b"x").hexdigest()])
    count = int.from_bytes(data[head + 32 : head + 36], "big")
    moved = data[head + 36 : head + 36 + 12 * count]
    records = [moved[i : i + 8] + (0).to_bytes(4, "big") for i in range(0, len(moved), 12)]
    table = count.to_bytes(4, "big") + b"".join(records)
    return data[:head] + hashlib.sha256(table).digest() + table


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flip,
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "only the head": lambda data: data[: len(MAGIC)],
    "of another version": lambda data: MAGIC + bytes(32) + data[len(MAGIC) + 32 :],
    "of another kind": lambda data: b"{}" + data,
    "a lie": lie,
}


@pytest.mark.promise("An index of kernels that is damaged, foreign or wrong changes no answer.")
@pytest.mark.usefixtures("indexed")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_never_gives_a_wrong_answer(
    look: Callable[[str], KernelSpec | None], root: Path, damage: str
) -> None:
    kernel = [k for k in some() if k.arch == "gfx1201"][1]
    assert look(kernel.digest[:12]) == kernel
    (path,) = (root / "kernels").glob("ck_tile-*-gfx1201")
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert look(kernel.digest[:12]) == kernel
    assert path.read_bytes() == whole, "it is made again"
    assert missing(look, NOWHERE)


@pytest.mark.usefixtures("indexed")
def test_an_index_of_other_code_is_none(
    look: Callable[[str], KernelSpec | None], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing(look, NOWHERE)
    assert said == []
    monkeypatch.setattr(StoredTables, "key", hashlib.sha256(b"another version").digest())
    assert missing(look, NOWHERE)
    assert len(said) == 1


def test_the_key_covers_code_and_facts(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("domain", "backends", "facts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("1")
    monkeypatch.setattr(kernel_tables.fmha_cli, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(kernel_tables, "arch_root", lambda: tmp_path / "facts")

    def key() -> bytes:
        return StoredTables(root, print).key

    first = key()
    assert key() == first
    for name in ("domain", "backends", "facts"):
        (tmp_path / name / "a.py").write_text("2")
        assert key() != first
        (tmp_path / name / "a.py").write_text("1")
    assert key() == first


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("target", ["file", "link", "folder"])
def test_what_is_no_file_of_ours_is_not_read(
    look: Callable[[str], KernelSpec | None], root: Path, tmp_path: Path, target: str
) -> None:
    kernel = next(k for k in some() if k.arch == "gfx1201")
    assert look(kernel.digest[:12]) == kernel
    (path,) = (root / "kernels").glob("ck_tile-*-gfx1201")
    if target == "file":
        (root / "kernels").chmod(0o777)
    else:
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved") if target == "link" else path.mkdir()
    assert look(kernel.digest[:12]) == kernel


def test_a_cache_that_cannot_be_written_costs_only_time(said: list[str]) -> None:
    registry = Registry(entries=lambda: (), tables=lambda: StoredTables(Path("/proc/fmha"), said.append))
    kernel = next(k for k in some() if k.arch == "x86_64_v4")
    assert find_kernel(registry, [registry.backend("cpu")], kernel.digest[:12], ARCHS) == kernel


def test_plugins_are_always_asked() -> None:
    registry = Registry(tables=lambda: pytest.fail("no index of plugins"))
    others = [backend for name, backend in registry.backends.items() if name not in BUILTINS]
    for backend in others:
        assert not registry.is_builtin(backend.name)
        for arch in backend.archs():
            for kernel in backend.kernels(registry.arch(arch)):
                assert find_kernel(registry, [backend], kernel.digest[:16], [arch]) == kernel
    assert all(registry.is_builtin(name) for name in BUILTINS)


def test_places() -> None:
    digests = [f"{number:064x}"[::-1] for number in range(300)]
    table = make_table((digest, f"name{number}" if number % 2 else None) for number, digest in enumerate(digests))
    for number, digest in enumerate(digests):
        assert number in places_by_digest(table, digest[:8])
        assert places_by_digest(table, digest) == {number}
        assert places_by_name(table, f"name{number}") == ({number} if number % 2 else set())
    assert places_by_digest(table, "f" * 9) == set()
    assert places_by_digest(make_table(()), "0" * 8) == set()
