"""A small local package index, archives to put into it, and a cache to fetch them to."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fmha_cli.sources.pins import Archive, Pin
from fmha_cli.sources.pip_settings import PipSettings
from fmha_cli.sources.trees import tree_digest
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notice

FILES = {"include/a.h": b"#pragma once\n", "include/deep/b.h": b"int b;\n" * 400, "LICENSE": b"do what you like\n"}
"""The files that these tests keep from their archives."""

OTHERS = {"src/not-kept.cpp": b"int main() {}\n", "include-not/x.h": b"x"}


@dataclass
class Index:
    """An HTTP server with one project; tests set its faults.

    Attributes:
        files: name -> content. ranges: whether it answers ranges. cut: bytes after which it drops the connection.
        status: of every answer, 200 by default. password: the ``user:password`` that it requires.
        sent: bytes of file content sent. asked: requested paths.
    """

    server: ThreadingHTTPServer
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    cut: int | None = None
    status: int = 200
    password: str | None = None
    sent: int = 0
    asked: list[str] = field(default_factory=list)
    hold: threading.Event | None = None
    """If this event exists, the second half of a file is sent only once it is set."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/simple"

    @property
    def settings(self) -> PipSettings:
        return PipSettings(indexes=(self.url,), timeout=5, retries=0)


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self) -> None:
        index = self.index
        index.asked.append(self.path)
        if index.password is not None:
            import base64

            wanted = "Basic " + base64.b64encode(index.password.encode()).decode()
            if self.headers.get("Authorization") != wanted:
                self.send_error(401)
                return
        if index.status != 200:
            self.send_error(index.status)
        elif self.path.startswith("/simple/"):
            links = "".join(f'<a href="/files/{name}#sha256=00">{name}</a>' for name in index.files)
            self._send(f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")
        elif self.path.startswith("/files/") and self.path[7:] in index.files:
            self._file(index.files[self.path[7:]])
        else:
            self.send_error(404)

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, data: bytes) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match and self.index.ranges:
            first, last = int(match[1]), int(match[2])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            body = data[first : last + 1]
        else:
            self.send_response(200)
            body = data
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.index.cut is not None:
            self.wfile.write(body[: self.index.cut])
            self.close_connection = True
            return
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        if self.index.hold is not None:
            self.index.hold.wait(20)
        self.wfile.write(body[half:])
        self.index.sent += len(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[Index]:
    """A working package index."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    found = Index(server)
    server.RequestHandlerClass = type("Handler", (_Handler,), {"index": found})
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield found
    if found.hold is not None:
        found.hold.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def layout(tmp_path: Path) -> CacheLayout:
    """An empty cache."""
    return open_root(tmp_path / "cache")


@dataclass
class Notices:
    """Collects notices."""

    said: list[Notice] = field(default_factory=list)

    def __call__(self, notice: Notice) -> None:
        self.said.append(notice)

    @property
    def text(self) -> str:
        return "\n".join(notice.text for notice in self.said)


@pytest.fixture
def notices() -> Notices:
    return Notices()


def tar_of(
    files: Mapping[str, bytes], root: str = "p-1/", edit: Callable[[tarfile.TarFile], None] | None = None
) -> bytes:
    """A .tar.gz with these files; ``edit`` may add unwanted members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(root + name)
            member.size, member.mode = len(data), 0o6755
            archive.addfile(member, io.BytesIO(data))
        if edit:
            edit(archive)
    return out.getvalue()


def zip_of(files: Mapping[str, bytes], root: str = "") -> bytes:
    """A wheel with these files after 2 MiB of unneeded data."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("ballast.bin"), bytes(range(256)) * 8192)
        for name, data in files.items():
            archive.writestr(root + name, data)
    return out.getvalue()


def pin_for(data: bytes, file: str = "p-1.tar.gz", root: str = "p-1/", kept: Mapping[str, bytes] | None = None) -> Pin:
    """The pin of an archive that keeps ``include/`` and ``LICENSE``."""
    content = dict(FILES if kept is None else kept)
    listed = {name: (hashlib.sha256(body).hexdigest(), len(body)) for name, body in content.items()}
    return Pin(
        name="p",
        archive=Archive("p", "1", file, hashlib.sha256(data).hexdigest(), len(data)),
        root=root,
        take=("include/", "LICENSE"),
        files=len(content),
        bytes=sum(map(len, content.values())),
        digest=tree_digest(listed),
        license="MIT",
        notice=("LICENSE",),
        backends=(),
        purpose="tests",
        title="a project",
        source="made here",
    )


def nothing_left(layout: CacheLayout) -> bool:
    """Whether the cache holds no source and no partial file."""
    return not [*layout.sources.glob("*"), *layout.tmp.glob("*")]
