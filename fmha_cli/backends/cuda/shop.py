"""Build one kernel of a ``CubinUpstream`` from its text, a compiler, the headers of its pinned source, and the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from threading import Lock

from fmha_cli.backends.cuda.homes import OwnTree, own_tree
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Edited
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import unbuildable
from fmha_cli.sources.pins import pin_of
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import ARTIFACT, LOG
from fmha_cli.toolchain.cache.prebuilt import find_prebuilt
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.headers import tree_digest
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.cuda.compile import cuda_key, knows
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.packages import INSTALL_HELP
from fmha_cli.toolchain.cuda.probe import CudaKind, CudaToolchain
from fmha_cli.toolchain.cuda.remarks import remarks_of
from fmha_cli.toolchain.cuda.toolchain import find_cuda, find_nvcc, with_ptxas
from fmha_cli.toolchain.kernels import kernel_build
from fmha_cli.toolchain.notice import Notice, NoticeKind, as_text

COMPILER_OPTION = "compiler"
"""The entry of ``BuildContext.options`` that names one of ``toolchain.COMPILERS``."""
FAILS_ON = "nvrtc_assembler_fails_on"
"""The architecture fact that lists what a kernel may do that NVRTC's own assembler does not survive (``CubinUpstream.instructions``)."""


@dataclass(frozen=True)
class Workshop:
    """The compiler, the cache and the sources with which every kernel of an upstream is built.

    Attributes:
        toolchain: the compiler; None where none works. Kernels that were built elsewhere load even then.
        fault: why no compiler works; None where one does.
        assembled: returns ``toolchain`` with the separate assembler in place of NVRTC's own. It raises B052 if there is
            none.
        tree: returns the folder of the unpacked source and fetches it if necessary. It is called only to compile text
            that includes the source.
        digests: the digest of that folder's content; empty for an upstream without a source.
        own: the user's tree, whose folder ``tree`` then returns; None for the pinned source.
    """

    cache: Cache
    toolchain: CudaToolchain | None
    fault: EnvironmentProblem | None
    assembled: Callable[[], CudaToolchain]
    tree: Callable[[], Path]
    digests: tuple[str, ...]
    own: OwnTree | None = None

    @property
    def edited(self) -> Edited | None:
        """The differences of the sources from the pinned ones."""
        return None if self.own is None else self.own.edited

    def must_compile(self, upstream: CubinUpstream, kernel: KernelSpec, context: BuildContext) -> bool:
        """Whether :func:`build` would compile the kernel: there is a compiler, and no cubin from the cache or an archive.

        Raises:
            EnvironmentProblem: the cache cannot be read.
        """
        wished = COMPILER_OPTION in context.options
        toolchain, _ = _toolchain(upstream, kernel, self, wished)
        text = text_of(upstream, kernel, self.digests)
        return toolchain is not None and _known(upstream, kernel, text, toolchain, self, wished) is None


def workshop(upstream: CubinUpstream, context: BuildContext) -> Workshop:
    """The context's workshop, or a new one. A missing compiler is not an error yet.

    Raises:
        UsageError: the context asks for an unknown compiler, or an unknown revision of the user's tree.
        EnvironmentProblem: the cache is unusable, or the user's tree (S105, S106).
    """
    if isinstance(context.prepared, Workshop):
        return context.prepared
    root, speak = context.cache_root, as_text(context.notify, context.phase)
    kernels = Cache(root, notify=speak)
    own = own_tree(upstream, context.options, root, speak)
    toolchain, fault = None, None
    try:
        toolchain = find_cuda(root, notify=speak, wished=context.options.get(COMPILER_OPTION))
    except EnvironmentProblem as problem:
        if problem.code not in ("B050", "B052"):
            raise
        fault = problem
    if toolchain is not None and toolchain.kind not in upstream.flags:
        fault, toolchain = _unfit(upstream, toolchain), None

    @cache
    def assemble() -> CudaToolchain:
        assert toolchain is not None
        return with_ptxas(toolchain, root)

    @cache
    def unpack() -> Path:
        from fmha_cli.sources.store import (
            fetch_source,  # importing its network modules takes longer than loading a cubin
        )

        assert upstream.source is not None
        return fetch_source(upstream.source, root, offline=context.offline, notify=speak)

    fetching = Lock()

    def tree() -> Path:
        with fetching:  # parallel compiles would otherwise wait for each other's fetch and print notices about it
            return unpack()

    if own is not None:
        folder = own.root
        return Workshop(kernels, toolchain, fault, assemble, lambda: folder, (own.digest,), own)
    return Workshop(kernels, toolchain, fault, assemble, tree, _read_pinned(upstream))


def build(upstream: CubinUpstream, kernel: KernelSpec, context: BuildContext) -> Artifact:
    """The cubin of a kernel: from the cache, from an imported archive, or compiled now.

    If NVRTC refuses the text and nvcc is installed, nvcc compiles it, and a notice says so. If the context names a
    compiler, only that compiler is used. Notices also report two defects of a kernel that is compiled now: calls of
    functions that the cubin does not contain, and a loss of speed that the assembler reports.

    Raises:
        UnsupportedError: upstream has no such kernel; nothing is compiled.
        EnvironmentProblem: there is no compiler (B050), the compiler does not know the architecture (B051), the kernel
            needs a separate assembler and there is none (B052), or the sources are missing.
        KernelFailure: the kernel does not compile.
    """
    _require_buildable(upstream, kernel)
    shop = workshop(upstream, context)
    text = text_of(upstream, kernel, shop.digests)
    wished = COMPILER_OPTION in context.options
    toolchain, fault = _toolchain(upstream, kernel, shop, wished)
    known = _known(upstream, kernel, text, toolchain, shop, wished)
    if known is not None:
        return replace(known, edited=shop.edited)
    if toolchain is None:
        assert fault is not None
        raise fault
    try:
        return _compile(upstream, kernel, text, toolchain, shop, context)
    except KernelFailure as refused:
        may_help = toolchain.kind is CudaKind.NVRTC and not wished and CudaKind.NVCC in upstream.flags
        spare = find_nvcc(context.cache_root) if may_help else None
        if spare is None or not knows(spare, kernel.arch) or "exited" not in (refused.why or ""):
            raise
        said = f"NVRTC does not compile {kernel.name} ({refused.what}); {spare.path} ({spare.version}) is used"
        as_text(context.notify)(Notice(NoticeKind.TOOLCHAIN, said))
        return _compile(upstream, kernel, text, spare, shop, context)


def key_of(upstream: CubinUpstream, kernel: KernelSpec, context: BuildContext) -> BuildKey:
    """The key of the kernel that :func:`build` compiles and keeps.

    Raises:
        UnsupportedError: upstream has no such kernel; nothing is compiled.
        EnvironmentProblem: there is no compiler (B050), the compiler does not know the architecture (B051), there is no
            assembler (B052), or the cache is unusable.
    """
    _require_buildable(upstream, kernel)
    shop = workshop(upstream, context)
    toolchain, fault = _toolchain(upstream, kernel, shop, COMPILER_OPTION in context.options)
    if toolchain is None:
        assert fault is not None
        raise fault
    return _key(upstream, kernel, text_of(upstream, kernel, shop.digests), toolchain, shop)


def text_of(upstream: CubinUpstream, kernel: KernelSpec, digests: tuple[str, ...] | None = None) -> str:
    """The whole translation unit.

    It names the sources that it includes, so an imported cubin that was made from other sources never matches it.

    Args:
        digests: of those sources (``Workshop.digests``); by default the pinned ones.
    """
    shims_digest = digest_of([_tree_digest(upstream.shim_folder(name)) for name in upstream.shims[CudaKind.NVRTC]])
    own = _read_pinned(upstream) if digests is None else digests
    sources = "".join(f"// {upstream.source} {digest}\n" for digest in own)
    return f"{sources}// shims {shims_digest}\n{upstream.emit(kernel)}"


def needs_assembler(upstream: CubinUpstream, kernel: KernelSpec) -> bool:
    """Whether NVRTC's own assembler would crash on the kernel, according to the facts of its architecture."""
    fact = load_arch(kernel.arch).facts.get(FAILS_ON)
    return fact is not None and not upstream.instructions(kernel).isdisjoint(fact["value"])


def _read_pinned(upstream: CubinUpstream) -> tuple[str, ...]:
    """The digest of the pinned source that the text includes; empty if there is none."""
    return () if upstream.source is None else (pin_of(upstream.source).digest,)


def _unfit(upstream: CubinUpstream, toolchain: CudaToolchain) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{toolchain.path} ({toolchain.version}) cannot compile the kernels of {upstream.name}",
        code="B050",
        where=upstream.name,
        why=f"their text is for {' and '.join(upstream.flags)} alone",
        help=INSTALL_HELP,
    )


def _require_buildable(upstream: CubinUpstream, kernel: KernelSpec) -> None:
    reasons = upstream.refusals(kernel)
    if reasons:
        raise unbuildable(kernel, reasons)


def _toolchain(
    upstream: CubinUpstream, kernel: KernelSpec, shop: Workshop, wished: bool
) -> tuple[CudaToolchain | None, EnvironmentProblem | None]:
    """The compiler for a kernel, or why there is none."""
    found = shop.toolchain
    if found is None or wished or found.kind is not CudaKind.NVRTC or not needs_assembler(upstream, kernel):
        return found, shop.fault
    try:
        return shop.assembled(), None
    except EnvironmentProblem as fault:
        return None, fault


def _known(
    upstream: CubinUpstream,
    kernel: KernelSpec,
    text: str,
    toolchain: CudaToolchain | None,
    shop: Workshop,
    wished: bool,
) -> Artifact | None:
    """The cubin of a kernel from the cache or, unless the context names a compiler, from an imported archive."""
    known = None if toolchain is None else shop.cache.lookup(_key(upstream, kernel, text, toolchain, shop))
    return known if known is not None or wished else find_prebuilt(shop.cache, kernel_build(kernel, text))


def _compile(
    upstream: CubinUpstream,
    kernel: KernelSpec,
    text: str,
    toolchain: CudaToolchain,
    shop: Workshop,
    context: BuildContext,
) -> Artifact:
    key = _key(upstream, kernel, text, toolchain, shop)
    folders = {name: upstream.shim_folder(name) for name in upstream.shims[toolchain.kind]}
    derived: Mapping[str, str] = {}
    if upstream.source is not None:
        tree = shop.tree()
        folders |= {name: tree / part for name, part in upstream.folders.items()}
        derived = upstream.derive_files(kernel, tree)
    places = {**toolchain.places, **{name: str(path) for name, path in folders.items()}}
    own = shop.own
    made = build_kernel(
        shop.cache,
        key,
        toolchain,
        places=places,
        files=derived,
        timeout=context.timeout,
        cancel=context.stop,
        settled=lambda: None if own is None else own.home.require_same(shop.cache.layout, str(own.root)),
        accept=partial(_require_sound, upstream, kernel),
    )
    if not made.cached:
        for said in _faults(upstream, made):
            as_text(context.notify)(Notice(NoticeKind.CODE, f"{kernel.name}: {said}", made.digest))
    return replace(made, edited=shop.edited)


def _require_sound(upstream: CubinUpstream, kernel: KernelSpec, work: Path) -> None:
    """Refuse a cubin whose kernel would be slow in a way that the upstream's authors call a defect.

    Raises:
        KernelFailure: B063.
    """
    log = (work / LOG).read_text("utf-8", "replace")
    if found := tuple(upstream.defects((work / ARTIFACT).read_bytes(), remarks_of(log))):
        raise KernelFailure(
            f"the compiler made a slow {kernel.family.value}",
            code="B063",
            where=kernel.name,
            why="; ".join(found),
            help=f"{INSTALL_HELP}: another release of the compiler made this",
        )


def _faults(upstream: CubinUpstream, made: Artifact) -> Iterator[str]:
    """Defects that cost speed in a cubin that was just compiled."""
    unasked = [name for name in Cubin(made.path.read_bytes()).extern_calls if name not in upstream.calls]
    if unasked:
        yield f"the code calls {', '.join(unasked)}, which the cubin does not contain and its text does not call on purpose"
    yield from remarks_of(made.log.read_text("utf-8", "replace"))


def _key(upstream: CubinUpstream, kernel: KernelSpec, text: str, toolchain: CudaToolchain, shop: Workshop) -> BuildKey:
    own = upstream.shims[toolchain.kind]
    digests = (*(_tree_digest(upstream.shim_folder(name)) for name in own), *shop.digests)
    return cuda_key(kernel, text, toolchain, upstream.flags[toolchain.kind], (*own, *upstream.folders), digests)


@cache
def _tree_digest(folder: Path) -> str:
    return tree_digest(folder, ("*",))
