"""The rows of ``arch_specs/_model_types.json``, found from recorded calls, and how a row and a class differ.

A formula is taken only if it gives what the class did in every configuration that was run, and only if the class has, or asks for,
each member in it. What the source says about derived members and types of layers is read by ``source``; what no candidate
explains is written in ``rows`` by hand and judged by the same calls.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fmha_cli.discovery.model_config import Members, TypeRow, model_from
from fmha_cli.domain.formula import names_of
from fmha_cli.domain.model import Model
from tests.support.model_classes import probe, source

Sample = tuple[str, Mapping[str, Any], Sequence[probe.Call]]
_USUAL = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim")
_GIVEN = ("i", "hdim", "layer", "window")


def calls_of(model: Model) -> Counter[probe.Call]:
    """The attention calls that a model stands for."""
    found: Counter[probe.Call] = Counter()
    for one in model.layers:
        call = probe.Call(
            heads=one.heads,
            kv_heads=one.kv_heads,
            hdim=one.hdim,
            hdim_v=one.hdim_v,
            scale=rounded(one.scale if one.scale is not None else one.hdim**-0.5),
            softcap=one.softcap,
            sink_logits=one.sink_logits,
            alibi=one.alibi,
            seen=seen(one.window, one.causal),
        )
        found[call] += one.count
    return found


def rounded(scale: float) -> float:
    return float(f"{scale:.6g}")


def close(found: float, expected: float) -> bool:
    """Whether a scale is what single precision makes of another."""
    return abs(found / expected - 1) < 1e-4


def seen(window: int | None, causal: bool) -> tuple[int, ...]:
    """The keys that each query sees."""
    far = probe.SEQLEN if window is None else window - 1
    rows = range(probe.SEQLEN)
    return tuple(min(row, far) + 1 + (0 if causal else min(probe.SEQLEN - 1 - row, far)) for row in rows)


def difference(row: TypeRow, kind: str, members: Mapping[str, Any], calls: Iterable[probe.Call]) -> str:
    """How the table and a class differ about a configuration; empty where they agree, ``refused: ...`` where the table refuses."""
    try:
        ours = calls_of(model_from(Members(members, row, kind), "m", "M"))
    except ValueError as fault:
        return f"refused: {fault}"
    known = {call.scale for call in ours}
    theirs: Counter[probe.Call] = Counter()
    for call in calls:
        scale = next((one for one in known if close(call.scale, one)), rounded(call.scale))
        theirs[replace(call, scale=scale)] += 1
    return "" if ours == theirs else f"table {dict(ours - theirs)}, class {dict(theirs - ours)}"


FULL = ("full_attention", "attention", "hybrid")
LOCAL = ("sliding_attention", "hybrid_sliding")
OTHERS = ("linear_attention", "conv", "mamba", "recurrent", "moe", "mlp")

ATTENDS = f"True if layer in {FULL + LOCAL} else False if layer in {OTHERS} else None"
"""Which layers have softmax attention; None for a type that the classes do not have."""

_LOCAL = f"layer in {LOCAL}"


_HEADS = ("decoder_attention_heads", "encoder_attention_heads", "num_heads", "n_heads", "attention_heads")
_WIDTHS = ("d_model", "embed_dim", "dim", "hidden_dim", "emb_dim", "hidden_size")


def candidates(fact: str, names: Mapping[str, str]) -> Iterator[str]:
    """The formulas of a fact, the ones that read most members first.

    Args:
        names: usual name -> the name that the class has for it.
    """
    heads, width, kv, dim = (
        names[one] for one in ("num_attention_heads", "hidden_size", "num_key_value_heads", "head_dim")
    )
    several = (heads, *_HEADS)
    yield from {
        "layers": (names["num_hidden_layers"], "decoder_layers", "num_layers", "encoder_layers", "depth", "num_blocks"),
        "heads": several,
        "kv_heads": (f"{kv} or {heads}", kv, heads, f"1 if multi_query else {heads}", "1", *_HEADS),
        "hdim": (
            f"{dim} or {width} // {heads}",
            dim,
            f"{width} // {heads}",
            "qk_nope_head_dim + qk_rope_head_dim",
            "kv_channels",
            *(f"{one} // {number}" for one in (width, *_WIDTHS) for number in several),
        ),
        "hdim_v": ("hdim", "v_head_dim"),
        "scale": (
            "query_pre_attn_scalar ** -0.5 if query_pre_attn_scalar is not None else hdim ** -0.5",
            "attention_multiplier if attention_multiplier is not None else hdim ** -0.5",
            "hdim ** -0.5 * qk_scale_factor",
            "(hdim ** -0.5 if scale_attn_weights else 1.0) / (i + 1 if scale_attn_by_inverse_layer_idx else 1)",
            "hdim ** -0.5 if scale_attn_weights else 1.0",
            "hdim ** -0.5",
            "attention_scaling",
            "1.0",
            "1 / hdim",
        ),
        "softcap": ("attn_logit_softcapping", "attention_logit_softcapping", "None"),
        "sink_logits": ("False", "True", _LOCAL),
        "alibi": ("False", "True", "alibi"),
    }[fact]


def windows() -> Iterator[tuple[str, str]]:
    """Windows, and whether a query sees no key behind its own; the ones that read most members first."""
    ways = ("not use_bidirectional_attention", "use_bidirectional_attention != 'all'", "is_decoder", "True")
    for name in ("sliding_window", "sliding_window_size", "attention_window_size"):
        for causal in ways:
            yield f"{name} if {_LOCAL} else None", causal
            yield f"{name} + 1 if {_LOCAL} else None", causal
    for name in ("sliding_window", "sliding_window_size", "attention_window_size"):
        for causal in ways:
            yield name, causal
    for causal in ways:
        yield "None", causal
    for window in ("sliding_window", "sliding_window + 1", "sliding_window // 2 + 1"):
        yield f"{window} if {_LOCAL} else None", "False"
    for name in ("sliding_window", "sliding_window + 1"):
        yield name, "False"
    yield "None", "False"


class Fit:
    """The row of one type, found fact by fact."""

    def __init__(self, kind: str, samples: Sequence[Sample], given: Mapping[str, Any]) -> None:
        self.kind, self.samples = kind, samples
        config = probe.config_class(kind)
        self.aliases = dict(getattr(config, "attribute_map", {}))
        self.names = {usual: self.aliases.get(usual, usual) for usual in _USUAL}
        self.fields = {**probe.members_of(kind), **dict.fromkeys(self.aliases.values())} | probe.members_of(kind)
        own = getattr(config, "__dataclass_fields__", {})
        self.derived = {
            name: formula
            if name in own
            else f"{name} if {name} is not None else ({formula})"  # anything that is not a field is set last
            for name, formula in source.derived(config).items()
            if name.isidentifier()
        }
        self.layers = source.layer_formulas(config)
        self.facts: dict[str, str] = dict(given.get("facts", {}))
        self.defaults: dict[str, Any] = dict(given.get("defaults", {}))
        self.refused: dict[str, str] = dict(given.get("refused", {}))

    def row(self, facts: Mapping[str, str] | None = None, defaults: Mapping[str, Any] | None = None) -> TypeRow:
        """The row of the facts found so far and of some more."""
        facts = {**self.facts, **(facts or {})}
        used: set[str] = set()
        open_ = [*facts.values(), *self.refused]
        while open_:
            for name in names_of(open_.pop()):
                if name not in used:
                    used.add(name)
                    if name in self.derived and name not in facts:
                        facts[name] = self.derived[name]
                        open_.append(self.derived[name])
        plain = bool | int | float | str | list | dict
        known = {name: self.fields[name] for name in sorted(used) if isinstance(self.fields.get(name), plain)}
        names = {alias: native for alias, native in self.aliases.items() if native in used and alias not in used}
        return TypeRow(
            source="",
            names=names,
            defaults={**known, **self.defaults, **(defaults or {})},
            facts=facts,
            refused=self.refused,
        )

    def found(self) -> str:
        """Finds every fact. The answer is what could not be found; empty where all were."""
        return self._layers() or self._shape() or self._seen() or self._scores()

    def _good(self, check: Callable[[Mapping[str, Any], Sequence[probe.Call]], bool]) -> bool:
        try:
            return all(check(members, calls) for _, members, calls in self.samples)
        except ValueError:
            return False

    def _known(self, *formulas: str) -> bool:
        """Whether the class has every member of some formulas; a member that it never asks for decides nothing."""
        names = {name for formula in formulas for name in names_of(formula)}
        return names <= {*self.fields, *self.derived, *self.facts, *self.defaults, *_GIVEN}

    def _layers(self) -> str:
        """The number of layers, which of them attend, and how often."""
        numbers = (
            [self.facts["layers"]] if "layers" in self.facts else filter(self._known, candidates("layers", self.names))
        )
        types: list[tuple[dict[str, str], dict[str, Any]]] = [({}, {})]
        if "layer" in self.facts and "attends" not in self.facts:
            types = [({"attends": ATTENDS}, {})]
        elif "attends" not in self.facts:
            listed = self.aliases.get("layer_types", "layer_types")
            types = [
                ({"layer": f"{listed}[i] if {listed} else ({one})", "attends": ATTENDS}, more)
                for one, more in self.layers
            ] + types
            types += [({"layer": f"{listed}[i]", "attends": ATTENDS}, {})] if listed in self.fields else []
        calls = [self.facts["calls"]] if "calls" in self.facts else ["1", "2"]
        for number, times, (more, extra) in itertools.product(numbers, calls, types):
            facts = {"layers": number, **more} | ({"calls": times} if times != "1" else {})
            row = self.row(facts, extra)

            def check(members: Mapping[str, Any], made: Sequence[probe.Call], row: TypeRow = row) -> bool:
                return len(list(self._of(row, members, "layers"))) == len(made)

            if self._good(check):
                self.facts |= facts
                self.defaults |= extra
                return ""
        return f"layers: {[(what, len(calls)) for what, _, calls in self.samples][:8]}; {self.layers}"

    def _of(self, row: TypeRow, members: Mapping[str, Any], fact: str) -> Iterator[Any]:
        """A fact, call by call."""
        read = Members(members, row, self.kind)
        times, number = read.value("calls") or 1, read.value("layers")
        if type(number) is not int:
            raise ValueError("no number of layers")
        for i in range(number):
            if read.value("attends", i) is not False:
                yield from [read.value(fact, i)] * times

    def _pick(self, fact: str) -> str:
        given = [self.facts[fact]] if fact in self.facts else filter(self._known, candidates(fact, self.names))
        for formula in given:
            row = self.row({fact: formula})

            def check(members: Mapping[str, Any], calls: Sequence[probe.Call], row: TypeRow = row) -> bool:
                ours = list(self._of(row, members, fact))
                return len(ours) == len(calls) and all(
                    _same(value, getattr(call, fact)) for value, call in zip(ours, calls, strict=True)
                )

            if self._good(check):
                self.facts[fact] = formula
                return ""
        what, _, calls = next((one for one in self.samples if one[0] == "tiny"), self.samples[0])
        return f"{fact}: {what} {dict(Counter(getattr(call, fact) for call in calls))}"

    def _shape(self) -> str:
        return next(filter(None, map(self._pick, ("heads", "kv_heads", "hdim", "hdim_v"))), "")

    def _scores(self) -> str:
        return next(filter(None, map(self._pick, ("scale", "softcap", "sink_logits", "alibi"))), "")

    def _seen(self) -> str:
        given = [(self.facts["window"], self.facts.get("causal", "True"))] if "window" in self.facts else windows()
        for window, causal in given:
            if "window" not in self.facts and (
                not self._known(window, causal) or ("layer" in names_of(window) and "layer" not in self.facts)
            ):
                continue
            facts = {"window": window, "causal": causal}
            row = self.row(facts)

            def check(members: Mapping[str, Any], calls: Sequence[probe.Call], row: TypeRow = row) -> bool:
                windows, ways = (list(self._of(row, members, fact)) for fact in ("window", "causal"))
                both = zip(windows, ways, calls, strict=True)
                return len(windows) == len(calls) and all(
                    seen(w, c in (None, True)) == call.seen for w, c, call in both
                )

            if self._good(check):
                self.facts |= facts
                return ""
        what, _, calls = next((one for one in self.samples if one[0] == "tiny"), self.samples[0])
        return f"seen: {what} {dict(Counter(call.seen for call in calls))}"


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return bool(value) is wanted
    if isinstance(wanted, float):
        value = 0.0 if value is None else value
        return isinstance(value, int | float) and (value == wanted or (wanted > 0 and close(value, wanted)))
    return bool(value == wanted)
