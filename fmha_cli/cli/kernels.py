"""``fmha list-kernels``, and the selection of kernels that it shares with ``build`` and ``inspect``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.builtins import revision_option
from fmha_cli.discovery.filters import Filter, parse_filter
from fmha_cli.discovery.profiles import Profile, profiles_of
from fmha_cli.discovery.profiles import profiles as every_profile
from fmha_cli.discovery.wanted import AUTO, Wanted, named_backends
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.protocols import Backend, Catalogued, Counting, Profiled
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.suggest import NameKind, suggest
from fmha_cli.domain.tuning import Varied
from fmha_cli.report.form import Format


def selected_kernels(call: CliCall) -> Iterator[KernelSpec]:
    """The kernels that the options select, lazily, in the backends' own order.

    Kernels that cannot be built are included if a profile holds them, or if ``--arch`` has no others.

    Raises:
        UsageError: an unknown architecture, backend, family, type, profile, revision or filter key.
        EmptySelection: no kernel is left; names the term that eliminated all, or a revision that has some.
    """
    settings, registry, profiles = call.settings, call.registry, _profiles(call)
    filter_ = _filter(call, profiles)
    missing: list[EmptySelection] = []
    empty = True
    others = () if settings.on("tuning") else _unbuildable(call, profiles)
    where = " ".join(f"--{key} {settings.text(key)}" for key in ("backend", "arch", "profile") if settings.text(key))
    for offered in (_kernels(call, profiles, filter_, missing), others):
        try:
            for kernel in filter_.apply(offered, lambda kernel: registry.backend(kernel.backend).upstream_name(kernel)):
                empty = False
                yield kernel
        except EmptySelection as none_left:
            none_left.what += f" (of {where})" if where else ""  # a profile may have left too few
            raise
        if not empty:
            return
    if missing:
        raise missing[0]
    where += " --tuning" if settings.on("tuning") else ""
    what = f"no kernel exists for {where or 'any architecture'}"
    raise EmptySelection(
        what, code="F004", where=where or None, help="`fmha archs` and `fmha plugins` list what exists"
    )


def number_selected(call: CliCall) -> int:
    """The number of kernels that the options select. Backends that can count make no kernels for it.

    Raises:
        UsageError, EmptySelection: as ``selected_kernels``.
    """
    families = (
        None if _profiles(call) or call.settings.on("tuning") else _filter(call).values_of("family", list(Family))
    )
    total = sum(_number(call, *place, tuple(map(Family, families))) for place in _places(call)) if families else 0
    return total or sum(1 for _ in selected_kernels(call))  # which says why there are none


def _number(call: CliCall, backend: Backend, arch: ArchSpec, families: tuple[Family, ...]) -> int:
    if not isinstance(backend, Counting):
        return sum(1 for kernel in backend.kernels(arch) if kernel.family in families)
    try:
        return backend.count(arch, _revision(call, backend), families)
    except EmptySelection:
        return 0


def _filter(call: CliCall, profiles: Sequence[Profile] = ()) -> Filter:
    settings = call.settings
    terms = [f"{key}:{glob}" for key in ("family", "dtype") for glob in _globs_of(call, key)]
    own = [term for profile in profiles for term in profile.terms()]
    algorithms = call.registry.algorithms() if own or settings.many("filter") else {}  # all kernels have the others
    return parse_filter([*own, *terms, *settings.many("filter")], algorithms)


def _globs_of(call: CliCall, key: str) -> list[str]:
    """The globs of ``--family`` or ``--dtype``. Unlike those of ``--filter``, each must match a name that exists.

    Raises:
        UsageError: E008, it matches none.
    """
    names, kind = (list(Family), None) if key == "family" else (list(DType), NameKind.DTYPE)
    globs = [glob for glob in (call.settings.text(key) or "").split(",") if glob]
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            help = suggest(glob, names, kind)
            raise UsageError(f"--{key} {glob}: no such {key}", code="E008", where=f"--{key}", help=help)
    return globs


def _profiles(call: CliCall) -> tuple[Profile, ...]:
    """The profiles that ``--profile`` names: that of ``--backend``, else those of all backends with that name."""
    name = call.settings.text("profile")
    if name is None:
        return ()

    return profiles_of(name, Wanted(backend=call.settings.text("backend") or AUTO).names)


def _kernels(
    call: CliCall, profiles: Sequence[Profile], filter_: Filter, missing: list[EmptySelection]
) -> Iterator[KernelSpec]:
    """The backends' kernels before any filter. ``missing`` collects the errors of backends that offer nothing."""
    families = tuple(map(Family, filter_.first_values("family", list(Family), after=("backend",))))
    named = {profile.backend: profile.name for profile in profiles}
    for backend, arch in _places(call, profiles):
        if call.settings.on("tuning"):
            yield from backend.variants(arch) if isinstance(backend, Varied) else ()
            continue
        mine = named.get(backend.name)
        if not isinstance(backend, Catalogued):
            if mine is not None and isinstance(backend, Profiled):
                yield from backend.profile_kernels(arch, mine)
            else:
                yield from backend.kernels(arch)
            continue
        try:
            listed = backend.catalogue(arch, mine, _revision(call, backend), families)
        except EmptySelection as nothing:
            missing.append(nothing)
            continue
        yield from listed


def _unbuildable(call: CliCall, profiles: Sequence[Profile]) -> Iterator[KernelSpec]:
    """The kernels in the profiles of a backend for ``--arch``; none if the user asks for one of those profiles."""
    named = {profile.backend for profile in profiles}
    for backend, arch in _places(call) if call.settings.text("arch") else ():
        if isinstance(backend, Profiled) and backend.name not in named:
            own = (profile.name for profile in every_profile() if profile.backend == backend.name)
            yield from dict.fromkeys(kernel for name in own for kernel in backend.profile_kernels(arch, name))


def _places(call: CliCall, profiles: Sequence[Profile] = ()) -> Iterator[tuple[Backend, ArchSpec]]:
    """The requested backends, each with the requested architectures that it has kernels for."""
    arch, name, registry = call.settings.text("arch"), call.settings.text("backend"), call.registry
    archs = registry.arch_names() if arch is None else (registry.arch(arch).name,)
    if name in (None, AUTO):
        name = ",".join(profile.backend for profile in profiles if profile.backend in registry.backends) or AUTO
    backends = named_backends(registry, name)
    return ((backend, registry.arch(found)) for found in archs for backend in backends if found in backend.archs())


def _revision(call: CliCall, backend: Backend) -> str | None:
    """The revision of a backend's source that its option requests."""
    option = revision_option(backend.name)
    return None if option is None else call.settings.text(option.key)


def refuser(call: CliCall) -> Callable[[KernelSpec], tuple[Reason, ...]]:
    """The function that returns why a selected kernel cannot be built; empty for one that can. All can where neither a
    profile of the backend is asked for nor the architecture has none that can."""
    asked, registry = {profile.backend for profile in _profiles(call)}, call.registry

    @cache
    def refusals(name: str, arch: str) -> Callable[[KernelSpec], tuple[Reason, ...]] | None:
        """What refuses kernels of a backend and architecture; None where all of them can be built."""
        backend = registry.backend(name)
        if name not in asked and any(True for _ in backend.kernels(registry.arch(arch))):
            return None
        return backend.refusals if isinstance(backend, Catalogued | Profiled) else None

    def reasons(kernel: KernelSpec) -> tuple[Reason, ...]:
        refuse = refusals(kernel.backend, kernel.arch)
        return () if refuse is None else refuse(kernel)

    return reasons


def list_kernels(call: CliCall) -> None:
    """Every selected kernel; needs no device, sources or compiler."""
    collecting = gc.isenabled()
    gc.disable()  # all that is made lives until it is printed, so there is no garbage to look for
    try:
        _list(call)
    finally:
        if collecting:
            gc.enable()


def _list(call: CliCall) -> None:
    number = number_selected(call) if call.settings.on("count") else None
    if number is not None and call.output.form is Format.TABLE:
        call.output.text(str(number))
        return

    # 10 ms, which --count does without
    from fmha_cli.report.documents.kernels import MANY, grouped, groups_view, kernel_entry, kernels_document

    arch = call.settings.text("arch")
    if number is not None:
        call.output.document(replace(kernels_document(arch, ()), count=number))
        return
    kernels = list(selected_kernels(call))
    if call.output.brief and len(kernels) > MANY:
        call.output.table(grouped(arch, kernels), groups_view)
        return
    backend_of, reasons_against = cache(call.registry.backend), refuser(call)
    entries = (kernel_entry(k, backend_of(k.backend).upstream_name(k), reasons_against(k)) for k in kernels)
    call.output.document(kernels_document(arch, entries))
