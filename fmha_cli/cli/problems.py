"""The problems of a command line: those of its flags, of the layers of ``--model``, or of the calls of ``--workload``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.options import EXCLUDES, MODELS
from fmha_cli.discovery.sweep import Dropped, Raw, Sweep, expand, nothing_left, resolve_point
from fmha_cli.domain.errors import EmptySelection, ImpossibleProblem, UnsupportedError, UsageError
from fmha_cli.domain.fields import asks_fill, flags_in
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.workload import Workload
from fmha_cli.report.lines import counted
from fmha_cli.run.request import TENSOR_OF_FLAG

_SHAPED = ("q", "k", "v", "do")
"""Files whose shapes are those of the problem, as a model's are."""


Asked = Sequence[Sequence[tuple[Sweep, Layer | None]]]
"""Sweeps that go in step: those of the layers of one model in one phase, of the calls of a workload, or the only one."""


@dataclass(frozen=True)
class ProblemPoint:
    """A problem, and the calls of the model or workload for which it stands, if there is one."""

    problem: Problem
    layer: Layer | None = None


def file_flags(call: CliCall) -> dict[str, str]:
    """Flag key -> FILE[:KEY] of the tensors given as files, or the word that asks for a generated one."""
    return {key: text for key in TENSOR_OF_FLAG if (text := call.settings.text(key))}


def named_file(call: CliCall) -> str | None:
    """The first flag that names a tensor's file; None where all tensors are generated."""
    key = next((key for key, text in file_flags(call).items() if not asks_fill(key, text)), None)
    return None if key is None else f"--{key.replace('_', '-')}"


def problems_of(call: CliCall) -> tuple[Problem, ...]:
    """The problems of ``points_of``."""
    return tuple(point.problem for point in points_of(call))


def points_of(call: CliCall, workload: Workload | None = None) -> tuple[ProblemPoint, ...]:
    """Every problem asked for: the points of a sweep in the order of ``fmha_cli.discovery.sweep``; of models, one phase
    after the other, and for every point its layers side by side; of a workload, those that describe its calls.

    Args:
        workload: that of ``workload_of``.

    Raises:
        UsageError: a malformed value, an unreadable file, or no such model.
        ImpossibleProblem: an impossible problem, or point of a sweep without ``--skip-impossible``.
        UnsupportedError: E081, no problem describes a call of the workload.
        EmptySelection: S003, every point is impossible; F008, ``--only`` names none of them.
    """
    return _points_of(call, sweeps_of(call) if workload is None else [list(_of_workload(call, workload))])


def workload_of(call: CliCall) -> Workload | None:
    """The calls of ``--workload``; None if it is not given.

    Raises:
        UsageError: E080, the file cannot be read; E002, another option says the problems too.
        EnvironmentProblem: X052, what reads such a file is not installed.
    """
    path = call.settings.text("workload")
    if path is None:
        return None
    where = call.settings.where("workload")
    beside = (*(option.key for option in MODELS), *_SHAPED, "problems")
    other = next((key for key in beside if key in call.settings.values), None)
    if other is not None:
        other = call.settings.where(other)
        why = "the problems would come from both"
        raise UsageError(f"{where} and {other} contradict each other", code="E002", where=other, why=why)
    swept = expand(call.problem_flags).axes
    if swept:
        flag = f"--{swept[0].flag.name}"
        what, why = f"{flag} has several values beside {where}", "one flag overrides what every call says"
        raise UsageError(what, code="E002", where=flag, why=why, help="give one value")
    from fmha_cli.cli.workloads import read_calls  # 10 ms

    return read_calls(call, path, where)


def _of_workload(call: CliCall, workload: Workload) -> Iterator[tuple[Sweep, Layer | None]]:
    given: dict[str, Any] = call.problem_flags
    drops = frozenset(key for flag in given for key in EXCLUDES.get(flag, ()))
    mapped = [one for one in workload.calls if one.problem is not None]
    said = f"{workload.path}: {counted(workload.total, 'call')} of {counted(len(mapped), 'problem')}"
    said += (
        f", {workload.refused} without a problem; `fmha workloads {workload.path}` lists all"
        if workload.refused
        else ""
    )
    if not mapped:
        why = next(one.reason.text for one in workload.calls if one.reason is not None)
        what, help = f"no problem describes a call of {workload.path}", f"`fmha workloads {workload.path}` lists them"
        raise UnsupportedError(what, code="E081", where=call.settings.where("workload"), why=why, help=help)
    call.console.say(said)
    for one in mapped:
        assert one.problem is not None
        own = {key: value for key, value in flags_in(one.problem).items() if key not in given and key not in drops}
        layer = Layer(model=workload.path, kind=None, phase=None, weight=one.count, calls=workload.total)
        yield expand({**own, **given}), layer


def _points_of(call: CliCall, asked: Asked) -> tuple[ProblemPoint, ...]:
    files, complete, with_cache = file_flags(call), None, None
    if not all(asks_fill(key, text) for key, text in files.items()):
        from fmha_cli.run.given_cache import stored  # numpy: 70 ms
        from fmha_cli.run.input_files import flags_from_files, read_input_files

        given = read_input_files(files)
        complete, with_cache = partial(flags_from_files, given=given), partial(stored, arrays=given.arrays)
    skip, points, dropped = call.settings.on("skip_impossible"), list[ProblemPoint](), list[Dropped]()
    for sweep, raw, layer in _in_step(asked):
        found = resolve_point(sweep, raw, skip_impossible=skip, complete=complete)
        if isinstance(found, Dropped):
            dropped.append(found)
        else:
            points.append(ProblemPoint(with_cache(found) if with_cache else found, layer))
    if not points:
        raise nothing_left(dropped)
    for point in dropped:
        call.console.say(f"dropped {point.text}: {point.error.what}")
    _announce(call, [sweep for group in asked for sweep, _ in group], len(points), len(dropped))
    for text in dict.fromkeys(filter(None, (_empty_splits(point.problem) for point in points))):
        call.console.say(text)
    return _only(call, points)


def listed_points(call: CliCall, path: Path) -> tuple[ProblemPoint, ...]:
    """The problems of a file with the flags of one in each line.

    Raises:
        UsageError: E002, flags of a problem or a model next to it, an unreadable file, a line that does not define a
            problem.
        EmptySelection: F008, ``--only`` names none of them.
    """
    beside = next(
        (key for key in (*call.problem_flags, *(option.key for option in MODELS)) if key in call.settings.values), None
    )
    if beside is not None:
        where = call.settings.where(beside)
        raise UsageError(
            f"--problems beside {where}", code="E002", where=where, why="each line has all flags of its problem"
        )
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        why = getattr(fault, "strerror", None) or "not text in UTF-8"
        raise UsageError(f"--problems {path} cannot be read", code="E002", where="--problems", why=why) from fault
    points = []
    for number, line in enumerate(lines, 1):
        flags = line.partition("#")[0].strip()
        try:
            points += [ProblemPoint(Problem.from_cli(flags))] if flags else []
        except ImpossibleProblem as fault:
            if not call.settings.on("skip_impossible"):
                fault.where = f"{path}:{number}: {fault.where or flags}"
                raise
            call.console.say(f"dropped {path}:{number}: {fault.what}")
        except UsageError as fault:
            fault.where = f"{path}:{number}: {fault.where or flags}"
            raise
    if not points:
        raise UsageError(
            f"--problems {path} has no problem", code="E002", where="--problems", help="a line: -H 8 -s 1k --causal"
        )
    call.console.say(f"{counted(len(points), 'problem')} of {path}")
    return _only(call, points)


def _only(call: CliCall, points: Sequence[ProblemPoint]) -> tuple[ProblemPoint, ...]:
    """The points whose problems ``--only`` names; all without it.

    Raises:
        EmptySelection: F008, none has such a digest.
    """
    text = call.settings.text("only")
    if text is None:
        return tuple(points)
    digests = tuple(filter(None, map(str.strip, text.split(","))))
    chosen = tuple(point for point in points if point.problem.digest.startswith(digests))
    if not chosen:
        where = call.settings.where("only")
        missed = (
            "the only problem has another digest" if len(points) == 1 else f"none of the {len(points)} problems has it"
        )
        what = f"{where} {text}: {missed}"
        raise EmptySelection(what, code="F008", where=where)
    return chosen


def sweeps_of(call: CliCall) -> Asked:
    """The sweeps of a command line.

    Raises:
        UsageError: a malformed sweep; no such model; an option of models without a model, or tensor files with one.
        ImpossibleProblem: P019, heads that cannot be divided.
    """
    names, settings = call.settings.many("model"), call.settings
    if not names:
        lonely = next((option.key for option in MODELS if option.key in settings.values), None)
        if lonely is not None:
            what = f"{settings.where(lonely)} without --model"
            raise UsageError(
                what, code="E002", where=settings.where(lonely), help="--model NAME; `fmha models` lists them"
            )
        return [[(expand(call.problem_flags), None)]]
    shaped = next((key for key in _SHAPED if settings.text(key)), None)
    if shaped is not None:
        why = "the shapes would follow from both"
        raise UsageError(f"--model and --{shaped} contradict each other", code="E002", where=f"--{shaped}", why=why)
    return list(_of_models(call, names))


def _of_models(call: CliCall, names: Sequence[str]) -> Iterator[list[tuple[Sweep, Layer | None]]]:

    from fmha_cli.discovery.models import completed, phases_of, wanted_model  # 6 ms

    given: dict[str, Any] = call.problem_flags
    drops = frozenset(key for flag in given for key in EXCLUDES.get(flag, ()))
    tp = call.settings.size("tp", 1, 1)
    for name in names:
        wanted = wanted_model(name)
        if wanted.note:
            call.console.say(wanted.note)
        if wanted.model.other_layers:
            left = counted(wanted.model.other_layers, "layer")
            call.console.say(f"{wanted.model.name}: {left} without softmax attention, which no row counts")
        if wanted.model.cross_layers:
            left = counted(wanted.model.cross_layers, "layer")
            call.console.say(f"{wanted.model.name}: {left} with the keys of another input, which no row counts")
        for phase in phases_of(call.settings.text("phase")):
            yield [
                (
                    expand(completed(given, wanted.model, one, phase, tp, drops)),
                    Layer(
                        model=wanted.model.name,
                        kind=one.kind,
                        phase=phase,
                        weight=one.count,
                        assumed=bool(wanted.model.assumed),
                    ),
                )
                for one in wanted.layers
            ]


def _in_step(asked: Asked) -> Iterator[tuple[Sweep, Raw, Layer | None]]:
    """The points of all sweeps; sweeps that go in step give the first point of each, then the second of each, and so
    on.
    """
    for group in asked:
        for raws in zip(*(sweep.points() for sweep, _ in group), strict=True):
            for (sweep, layer), raw in zip(group, raws, strict=True):
                yield sweep, raw, layer


def _announce(call: CliCall, sweeps: Sequence[Sweep], points: int, dropped: int) -> None:
    """One line about a sweep of several problems."""
    less = f", dropped {counted(dropped, 'impossible one')}" if dropped else ""
    if len(sweeps) == 1 or call.settings.text("workload"):
        if sweeps[0].axes:
            call.console.say(f"{sweeps[0].text()}{less}")
        return
    call.console.say(f"{counted(points, 'problem')} of {', '.join(call.settings.many('model'))}{less}")


def _empty_splits(problem: Problem) -> str | None:
    """A note on more key splits than keys: valid but probably unintended."""
    keys, splits = max(problem.key_lengths(), default=0), problem.splits
    if splits <= keys:
        return None
    return f"--splits {splits} for {counted(keys, 'key')}: at least {counted(splits - keys, 'split')} will be empty"


def one_problem(call: CliCall) -> Problem:
    """The problem of a command that takes one.

    Raises:
        UsageError: a sweep, or a model with several problems.
    """
    asked = sweeps_of(call)
    points = _points_of(call, asked)
    if len(points) == 1:
        return points[0].problem
    axes = list(dict.fromkeys(axis for group in asked for sweep, _ in group for axis in sweep.axes))
    flags = list(dict.fromkeys(axis.flag for axis in axes))
    why = [f"--{axis.flag.name} has {len(axis.values)} values: {', '.join(axis.values)}" for axis in axes]
    ways = [f"give one value of {' and of '.join(f'--{flag.name}' for flag in flags)}"] if flags else []
    kinds = list(dict.fromkeys(point.layer.kind for point in points if point.layer and point.layer.kind))
    if len(kinds) > 1:
        why.append(f"the model has {' and '.join(kinds)} layers")
        ways.append(f"--model NAME:{kinds[0]}")
    if len({point.layer.phase for point in points if point.layer is not None}) > 1:
        why.append("--phase both has two phases")
        ways.append("--phase prefill or decode")
    raise UsageError(
        f"fmha {call.command} takes one problem, not a sweep of {len(points)}",
        code="E002",
        where="; ".join([call.settings.where(flag.key) for flag in flags]) or "--model",
        why="; ".join(why) or f"--model is given {len(call.settings.many('model'))} times",
        help="; ".join(ways) or "give one",
    )
