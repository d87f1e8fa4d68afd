"""A test backend whose kernels are built from a tree of sources, without a compiler: one header decides what they compute.

``kernel.h`` with the word ``wrong`` makes a kernel wrong, ``broken`` keeps it from compiling, and any other text is harmless.
The backend is a plugin, so ``fmha`` processes find it by its entry point like any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fmha_null import NullBackend
from fmha_null.kernels import ARCH, Behaviour, null_kernel
from fmha_null.session import NullSession

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import SourceState, SourceTree, Surroundings
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, BuildContext, Session
from fmha_cli.sources.homes import Known, home_files, look_at
from fmha_cli.toolchain.cache.key import key_for
from fmha_cli.toolchain.cache.layout import ARTIFACT, LOG
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct, Cache
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from fmha_cli.toolchain.kernels import kernel_build

NAME = "tree"
FILES = {"kernel.h": "right\n", "deep/other.h": "other\n"}
KNOWN = Known("first", {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in FILES.items()})
KERNEL = replace(null_kernel(DType.FP32, Family.FWD, Behaviour.HONEST), backend=NAME)


def make(root: Path, **texts: str) -> Path:
    """A tree, with other texts for some files (``kernel="wrong"``)."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts.get(path.stem, text))
    return root


def install(folder: Path) -> None:
    """Lay out the backend like an installed plugin, for processes with ``folder`` on their module path."""
    info = folder / "tree_backend-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tree-backend\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[fmha]\n{NAME} = {__name__}\n", "utf-8")


class TreeSession(NullSession):
    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        super().load(plan, artifacts)
        self._wrong = "wrong" in json.loads(artifacts[0].read_text("utf-8"))["text"]

    def launch(self) -> tuple[int, ...]:
        times = super().launch()
        if self._wrong:
            self._tensors["o"][...] += 1
        return times


class TreeBackend(NullBackend):
    """The null backend with one kernel."""

    name = NAME
    home_option: str | None = "tree-home"

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return (KERNEL,) if arch.name == ARCH else ()

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        yield Supported(KERNEL, (0,))

    def home_files(self, home: str) -> Mapping[str, Path]:
        if not Path(home).is_dir():
            raise EnvironmentProblem(f"{home} is not a folder", code="S105")
        return home_files({"": Path(home)})

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        return SourceTree(state=SourceState.MISSING)

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        home = context.options.get("tree-home")
        if home is not None:
            self.home_files(home)
        found = None if home is None else look_at(open_root(context.cache_root), {"": Path(home)}, KNOWN)
        text = FILES["kernel.h"] if home is None else Path(home, "kernel.h").read_text()
        digest = "pinned" if found is None or found.edited is None else found.digest
        none = Toolchain(argv0=("/none",), version="none", headers_digest=digest, kind=ToolchainKind.OTHER)
        key = key_for(kernel_build(stage.kernel, "the same"), (), none)

        def builder(work: Path) -> BuildProduct:
            if "broken" in text:
                raise BuildError("kernel.h:1: error: broken", why="exited with 1", log=None)
            (work / ARTIFACT).write_text(json.dumps({"kernel": stage.kernel.name, "text": text}))
            (work / LOG).write_text("no compiler")
            return BuildProduct(work / ARTIFACT, work / LOG, 0.0)

        made = Cache(context.cache_root).get_or_build(key, builder, context.stop)
        return replace(made, edited=None if found is None else found.edited)

    def open(self, device: DeviceFacts) -> Session:
        return TreeSession()


backend: Backend = TreeBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
