"""Whether the tensors that were given are all that a problem reads: missing tensors are generated only on request.

A result on real tensors mixed with generated ones looks like a result on real tensors. So the word ``filled`` asks for
each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from fmha_cli.domain.errors import ImpossibleProblem, UnsupportedError
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.flags import FILLED
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Role, shapes_of
from fmha_cli.run.input_files import FLAG_OF, InputFiles, check_fit


def refuse_misfits(problems: Iterable[Problem], given: InputFiles) -> None:
    """Refuse tensors that do not fit one of the problems, or are not all that it reads, before any of them runs.

    Raises:
        ImpossibleProblem, UsageError: P021, a tensor that is neither given nor asked for; see also ``check_fit``.
    """
    for problem in problems if given.arrays else ():
        with suppress(UnsupportedError):  # its row says so
            check_fit(problem, given)
            _refuse_missing(problem, given)


def generated(problem: Problem, given: InputFiles) -> tuple[str, ...]:
    """The tensors of a problem that are generated although others are given; none if none is given.

    Standard ALiBi slopes are a formula, O and LSE of a backward pass are computed, and the scales of an MX type belong to its
    elements.

    Raises:
        UnsupportedError: T001, see ``fmha_cli.domain.tensors.shapes_of``.
    """
    if not given.arrays:
        return ()
    apart = {"o", "lse", *(("alibi_slopes",) if problem.alibi is Alibi.STANDARD else ())}
    read = (name for name, shape in shapes_of(problem).items() if shape.role is not Role.OUTPUT and name not in apart)
    return tuple(name for name in read if name not in given.arrays and not name.endswith("_scale"))


def sources_of(problem: Problem, given: InputFiles) -> Mapping[str, str]:
    """Tensor name -> its file, or ``filled`` if it was generated next to given ones; empty if no tensor was given."""
    out = {name: path for name, path in given.paths.items() if name in given.arrays}
    with suppress(UnsupportedError):
        out |= dict.fromkeys(generated(problem, given), FILLED)
    return out


def _refuse_missing(problem: Problem, given: InputFiles) -> None:
    missing = [name for name in generated(problem, given) if given.paths.get(name) != FILLED]
    if "k" not in given.arrays:  # the table of generated pages is a part of them
        missing = [name for name in missing if name != "block_table"]
    if missing:
        flags = [FLAG_OF[name] for name in missing]
        what = f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} not given beside {_listed(given.arrays)}"
        given_so, filled_so = (" ".join(f"{flag} {value}" for flag in flags) for value in ("FILE", FILLED))
        help = f"{given_so}, or {filled_so} to generate {'it' if len(missing) == 1 else 'them'} from the seed"
        why = "where a tensor is given, no other is generated unless you ask for it"
        raise ImpossibleProblem(what, code="P021", where=flags[0], why=why, help=help)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
