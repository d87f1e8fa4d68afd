"""A cluster whose network fails between the end of a chunk and its result: Dask waits for such a result without end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from threading import Event, Thread
from typing import Any

import pytest

pytest.importorskip("distributed")
if sys.platform == "win32":
    pytest.skip("workers inherit descriptors", allow_module_level=True)

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.problem import Problem
from fmha_cli.run.request import Request
from fmha_cli.sweeps.cluster import ClusterScheduler
from fmha_cli.sweeps.places import NamedDevice
from fmha_cli.sweeps.remote import describe, run_chunk
from fmha_cli.sweeps.scheduler import News
from tests.sweeps.test_plan import plan_of

ADDRESS = "tcp://10.0.0.1:1"


class PlayedFuture:
    """A future that is finished, and whose result is here, or on a host that is cut off until ``mended``."""

    status = "finished"

    def __init__(self, answer: Any, mended: Event) -> None:
        self.answer, self.mended, self.cancelled = answer, mended, False

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        self.mended.wait()
        return self.answer

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)

    def cancel(self) -> None:
        self.cancelled = True

    def release(self) -> None: ...


class PlayedClient:
    """Dask's client with one worker. ``cut`` is the function whose results do not come."""

    cut: Callable[..., Any] | None = None
    mended = Event()

    def __init__(self, *words: object, **options: object) -> None: ...

    def subscribe_topic(self, topic: str, call: Callable[[Any], None]) -> None: ...

    def scheduler_info(self) -> Mapping[str, Any]:
        return {"workers": {ADDRESS: {"name": "fmha|host|null:0|"}}}

    def submit(self, function: Callable[..., Any], *words: Any, **options: Any) -> PlayedFuture:
        here = Event()
        here.set()
        done = {"records": {}, "archive": b"", "end": {"event": "done"}}
        answer = describe(*words) if function is describe else done
        return PlayedFuture(answer, self.mended if function is type(self).cut else here)

    def gather(self, futures: list[PlayedFuture], errors: str) -> list[Any]:
        assert errors == "skip"
        return [future.result() for future in futures]

    def close(self) -> None: ...


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[PlayedClient]]:
    monkeypatch.setenv("NULL_BACKEND_DEVICES", "1")
    monkeypatch.setattr("distributed.Client", PlayedClient)
    monkeypatch.setattr(PlayedClient, "mended", Event())
    yield PlayedClient
    PlayedClient.mended.set()


def within_a_minute(what: Callable[[], list[Any]]) -> list[Any]:
    """The news; fails if they do not come."""
    found: list[list[Any]] = []
    thread = Thread(target=lambda: found.append(what()), daemon=True)
    thread.start()
    thread.join(60)
    assert found, "the driver waits for a result that does not come"
    return found[0]


def given_one_chunk(scheduler: ClusterScheduler) -> None:
    _, (place,) = scheduler.find([NamedDevice(device="null:0")])
    plan = plan_of(Problem.of(seqlen=16, hdim=32))
    (chunk,) = plan.chunks(16)
    scheduler.give(place, plan.job(chunk, lambda number: None))


def first_news(scheduler: ClusterScheduler) -> list[News]:
    while not (news := list(scheduler.news(0.05))):
        pass
    return news


def test_a_result_on_a_host_that_is_cut_off_is_given_up(
    client: type[PlayedClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "cut", run_chunk)
    scheduler = ClusterScheduler("tcp://10.0.0.9:1", "ab" * 16, Request(backend="null"), silence_s=0.3)
    given_one_chunk(scheduler)
    (news,) = within_a_minute(lambda: first_news(scheduler))
    assert (news.event["event"], news.event["chunk"]) == ("died", 0)
    assert "no sign of life" in news.event["why"]
    client.mended.set()  # it comes after all, and counts for nothing
    assert within_a_minute(lambda: [*scheduler.news(0.5), news]) == [news]


def test_an_answer_on_a_host_that_is_cut_off_is_not_waited_for(
    client: type[PlayedClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "cut", describe)
    scheduler = ClusterScheduler("tcp://10.0.0.9:1", "ab" * 16, Request(backend="null"), silence_s=0.3, wait_s=0.3)

    def no_device() -> list[str]:
        with pytest.raises(EnvironmentProblem, match="no worker with null:0 came"):
            scheduler.find([NamedDevice(device="null:0")])
        return ["told"]

    assert within_a_minute(no_device) == ["told"]
    client.mended.set()
    scheduler.find([NamedDevice(device="null:0")])
    assert [place.device for place in scheduler.places()] == ["null:0"]


def test_a_result_that_comes_ends_its_chunk(client: type[PlayedClient]) -> None:
    scheduler = ClusterScheduler("tcp://10.0.0.9:1", "ab" * 16, Request(backend="null"), silence_s=30.0)
    given_one_chunk(scheduler)
    (news,) = within_a_minute(lambda: first_news(scheduler))
    assert news.event == {"event": "done", "chunk": 0}
    assert len(scheduler.free()) == 1
