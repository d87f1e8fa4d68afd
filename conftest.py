"""For every test of the repository and of its plugins: no command writes into the store of results of whoever runs them."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Sequence, Set
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.__main__ import YOUNG_OBJECTS
from tests.support.forked_workers import forked_workers
from tests.support.reading import leave_out
from tests.support.run_cache import run_cache
from tests.support.sampling import keep_some, leave_a_sample
from tools.passed_tests import name_of, skipped

os.environ["FMHA_NO_STORE"] = "1"
os.environ.pop("FMHA_STORE", None)
os.environ.pop("PYTEST_ADDOPTS", None)  # read by now; not for the runs of pytest that tests start

# Hundreds of tests start processes; without compiled modules each of them compiles the whole program again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting 24,000 tests makes millions of objects, all of which stay: the collector of garbage need not look at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)  # with Python's own 700, the collector takes a seventh of the time
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--again", metavar="XML", type=Path, help="with -m ci: also the tests that a report says were skipped"
    )
    parser.addoption(
        "--some", metavar="N", type=int, help="only N of the tests that are not slow, always the same ones"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    again = frozenset() if config.option.again is None else _skipped(config.option.again)
    return leave_out(collection_path, config.option.markexpr, again, config.rootpath) or None


@cache
def _skipped(report: Path) -> frozenset[str]:
    return frozenset(skipped(report))


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """CI runs the tests marked ``ci`` after README's command, which leaves out the slow ones: a test that is only ``ci`` would run twice."""
    leave_a_sample(items)
    twice = [i.nodeid for i in items if i.get_closest_marker("ci") and not i.get_closest_marker("slow")]
    if twice:
        raise pytest.UsageError(f"marked ci and not slow: {', '.join(twice)}")
    if config.option.again is not None:
        run_again(items, _skipped(config.option.again))
    if config.option.some is not None:
        items[:] = keep_some(items, config.option.some)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache root of this run."""
    return run_cache(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def _workers(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Workers fork instead of importing everything anew; not in a checkout that a test has made, which has no program."""
    if not (request.config.rootpath / "fmha_cli").is_dir():
        yield
        return
    with forked_workers():
        yield


def run_again(items: Sequence[pytest.Item], names: Set[str]) -> None:
    """Mark for CI what was skipped, each test by its name or with its whole file: what a later stage installs may be what it lacked."""
    for item in items:
        if not names.isdisjoint((name_of(item.nodeid), name_of(item.nodeid.partition("::")[0]))):
            item.add_marker(pytest.mark.ci)
