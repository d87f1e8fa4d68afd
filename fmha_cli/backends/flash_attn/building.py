"""Build one FlashAttention kernel: its generated text, NVRTC or nvcc, the headers of flash-attn, the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from fmha_cli.backends.flash_attn.kernel_rules import refusals
from fmha_cli.build.cache import Cache
from fmha_cli.build.cuda.compile import build_cuda, cuda_key, knows
from fmha_cli.build.cuda.toolchain import CudaKind, CudaToolchain, find_cuda, find_nvcc
from fmha_cli.build.headers import tree_digest
from fmha_cli.build.key import BuildKey
from fmha_cli.build.notice import Notice, NoticeKind, as_text
from fmha_cli.build.prebuilt import find_prebuilt
from fmha_cli.codegen.flash_attn.emit import emit, shims
from fmha_cli.encode import digest_of
from fmha_cli.errors import EnvironmentProblem, KernelFailure
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext
from fmha_cli.rules import unbuildable
from fmha_cli.sources.pins import pin_of

COMPILER_OPTION = "compiler"
"""Entry of ``BuildContext.options``: a name of ``toolchain.COMPILERS``."""
SOURCE = "flash-attn"
"""The pinned source of the kernels."""
FOLDERS = {"flash": Path("csrc", "flash_attn", "src"), "cutlass": Path("csrc", "cutlass", "include")}
"""Where it keeps its own headers, and CUTLASS's."""
SHIMS = {CudaKind.NVRTC: ("common", "nvrtc"), CudaKind.NVCC: ("common",)}
"""The shim headers by compiler, in the order of the search: before upstream's, so that they stand in."""

_MIB = 2**20
_COMPILE_BYTES = {
    Family.FWD: 3900 * _MIB,
    Family.FWD_SPLITKV: 3900 * _MIB,
    Family.FWD_SPLITKV_COMBINE: 1200 * _MIB,
    Family.BWD_DOT_DO_O: 1200 * _MIB,
    Family.BWD_DQ_DK_DV: 5500 * _MIB,
    Family.BWD_CONVERT_DQ: 2000 * _MIB,
}
"""Memory of one compile. Measured of NVRTC 13.0.88 over all head dims: 3244, 3070, 782, 968, 4892 and 1604 MiB at most;
other features take a little more."""


@dataclass(frozen=True)
class Workshop:
    """What every kernel is built with.

    Attributes:
        toolchain: None where no compiler works here; then ``fault`` says why, and kernels built elsewhere still load.
        tree: gives the folder of the unpacked flash-attn, fetched if need be; asked only when something is compiled.
        digest: of that folder's content, as pinned.
    """

    cache: Cache
    toolchain: CudaToolchain | None
    fault: EnvironmentProblem | None
    tree: Callable[[], Path]
    digest: str


def workshop(context: BuildContext) -> Workshop:
    """The compiler and the place of the sources, unless the context brings them. That no compiler works is no error yet.

    Raises:
        UsageError: the context asks for a compiler that does not exist.
        EnvironmentProblem: an unusable cache.
    """
    if isinstance(context.prepared, Workshop):
        return context.prepared
    root, speak = context.cache_root, as_text(context.notify)
    kernels = Cache(root, notify=speak)
    toolchain, fault = None, None
    try:
        toolchain = find_cuda(root, notify=speak, wished=context.options.get(COMPILER_OPTION))
    except EnvironmentProblem as problem:
        if problem.code != "B050":
            raise
        fault = problem

    @cache
    def unpacked() -> Path:
        from fmha_cli.sources.store import fetched  # its network modules take longer to import than a cubin to load

        return fetched(SOURCE, root, offline=context.offline, notify=speak)

    fetching = Lock()

    def tree() -> Path:
        with fetching:  # compiles side by side would wait for each other's fetch, and say so
            return unpacked()

    return Workshop(kernels, toolchain, fault, tree, pin_of(SOURCE).digest)


def build_fa(kernel: KernelSpec, context: BuildContext) -> Artifact:
    """The cubin of a kernel: from the cache, from an imported archive, or compiled now.

    A text that NVRTC refuses is given to nvcc where that is installed, and a notice says so. Where the context names a
    compiler, nothing else will do.

    Raises:
        UnsupportedError: upstream has no such kernel; nothing is compiled.
        EnvironmentProblem: no compiler (B050), one that does not know the architecture (B051), or no sources.
        KernelFailure: it does not compile.
    """
    _require_buildable(kernel)
    shop, text = workshop(context), text_of(kernel)
    known = None if shop.toolchain is None else shop.cache.lookup(_key(kernel, text, shop.toolchain, shop))
    wished = COMPILER_OPTION in context.options
    if known is None and not wished:
        known = find_prebuilt(shop.cache, kernel, text)
    if known is not None:
        return known
    toolchain = _required(shop)
    try:
        return _compiled(kernel, text, toolchain, shop, context)
    except KernelFailure as refused:
        may_help = toolchain.kind is CudaKind.NVRTC and not wished
        spare = find_nvcc(context.cache_root) if may_help else None
        if spare is None or not knows(spare, kernel.arch) or "exited" not in (refused.why or ""):
            raise
        said = f"NVRTC does not compile {kernel.name} ({refused.what}); {spare.path} ({spare.version}) is used"
        as_text(context.notify)(Notice(NoticeKind.TOOLCHAIN, said))
        return _compiled(kernel, text, spare, shop, context)


def fa_key(kernel: KernelSpec, context: BuildContext) -> BuildKey:
    """The key under which :func:`build_fa` keeps what it compiles.

    Raises:
        UnsupportedError: upstream has no such kernel; nothing is compiled.
        EnvironmentProblem: no compiler (B050), one that does not know the architecture (B051), or an unusable cache.
    """
    _require_buildable(kernel)
    shop = workshop(context)
    return _key(kernel, text_of(kernel), _required(shop), shop)


def text_of(kernel: KernelSpec) -> str:
    """The whole translation unit. It names the sources that it includes, so that an imported cubin made from others is
    never taken for this kernel's."""
    shims_digest = digest_of([_shim_digest(name) for name in SHIMS[CudaKind.NVRTC]])
    return f"// {SOURCE} {pin_of(SOURCE).digest}\n// shims {shims_digest}\n{emit(kernel)}"


def compile_bytes(kernel: KernelSpec) -> int:
    """Memory that compiling a kernel may take."""
    return _COMPILE_BYTES[kernel.family]


def _require_buildable(kernel: KernelSpec) -> None:
    reasons = refusals(kernel)
    if reasons:
        raise unbuildable(kernel, reasons)


def _required(shop: Workshop) -> CudaToolchain:
    if shop.toolchain is None:
        assert shop.fault is not None
        raise shop.fault
    return shop.toolchain


def _compiled(
    kernel: KernelSpec, text: str, toolchain: CudaToolchain, shop: Workshop, context: BuildContext
) -> Artifact:
    key = _key(kernel, text, toolchain, shop)
    tree = shop.tree()
    folders = {name: shims(name) for name in SHIMS[toolchain.kind]} | {n: tree / part for n, part in FOLDERS.items()}
    return build_cuda(shop.cache, key, toolchain, folders, timeout=context.timeout, cancel=context.stop)


def _key(kernel: KernelSpec, text: str, toolchain: CudaToolchain, shop: Workshop) -> BuildKey:
    own = SHIMS[toolchain.kind]
    digests = (*(_shim_digest(name) for name in own), shop.digest)
    return cuda_key(kernel, text, toolchain, (*own, *FOLDERS), digests)


@cache
def _shim_digest(name: str) -> str:
    return tree_digest(shims(name), ("*",))
