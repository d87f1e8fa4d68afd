"""``Model``: the attention of a language model, made from facts with sources, and the problem flags of its layers.

Facts are named as in ``FACTS``, whether they come from a preset in ``arch_specs/`` or from the configuration of a model. A window
of W keys includes the query's own, so its mask has W - 1 keys to the left.

Multi-head latent attention has two forms. In prefill every head has its own keys and values. In decode the projections
are absorbed into Q and O: all heads share one latent row, whose first columns are V (DeepSeek-AI, "DeepSeek-V2" (2024),
section 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, cast

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.flags import FILLED
from fmha_cli.domain.layer import LayerKind, LayerPhase
from fmha_cli.domain.members import Count, Least, Then

FACTS: Mapping[str, str] = {
    "layers": "layers with attention",
    "calls": "attention calls of a layer [default: 1]",
    "local_layers": "of these, with the window [default: all with a window, else none]",
    "heads": "query heads",
    "kv_heads": "key/value heads",
    "hdim": "head dim of Q and K",
    "hdim_v": "head dim of V [default: = hdim]",
    "window": "keys that a query of a local layer sees, its own included",
    "causal": "a query sees no key behind its own [default: true]",
    "global_heads": "query heads of the global layers [default: = heads]",
    "global_kv_heads": "key/value heads of the global layers [default: = kv_heads]",
    "global_hdim": "head dim of the global layers [default: = hdim]",
    "global_hdim_v": "head dim of V of the global layers [default: = global_hdim, else = hdim_v]",
    "global_scale": "softmax scale of the global layers [default: = scale]",
    "global_sink_logits": "the same of the global layers [default: = sink_logits]",
    "softcap": "cap of the scores [default: off]",
    "scale": "softmax scale [default: 1/sqrt(hdim)]",
    "sink_logits": "every head has a learned sink logit",
    "alibi": "standard ALiBi slopes",
    "latent": "columns of the shared latent row, which are V in decode (kv_lora_rank)",
    "latent_rope": "columns behind them, the rotary key (qk_rope_head_dim)",
    "other_layers": "layers without softmax attention, which no row counts",
    "cross_layers": "layers whose keys are another input's, which no row counts",
}
"""The facts that make a model, in the order in which they are shown."""

OF_SCORES = ("softcap", "scale", "sink_logits", "alibi")
"""Facts about the scores of a layer."""
OF_A_LAYER = ("heads", "kv_heads", "hdim", "hdim_v", "window", "scale", "softcap", "sink_logits", "alibi", "causal")
NUMBERS = ("softcap", "scale", "global_scale")
SWITCHES = ("causal", "sink_logits", "global_sink_logits", "alibi")
_NEEDED = ("layers", "heads", "kv_heads", "hdim")
_MAY_BE_0 = ("local_layers", "other_layers", "cross_layers")

_HEADS = "query heads of the first kind of layers; so too softcap, scale, sink_logits and alibi"
_CAP = "cap of the scores; 0 is off"
_SCALE = "softmax scale; null: 1/sqrt(hdim)"
_SINKS = "every head has a learned sink logit"

Value = int | float | bool


@dataclass(frozen=True)
class Fact:
    """A value, and where it is from."""

    value: Value
    source: str


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The layers of one kind.

    Attributes:
        window: without a causal mask, a query sees as many keys behind its own as before it.
    """

    kind: LayerKind
    count: Annotated[int, Least(1), "attention calls: the layers, times calls"]
    kv_heads: Annotated[int, Least(1), "key/value heads"]
    hdim: Annotated[int, Least(1), "head dim of Q and K"]
    hdim_v: Annotated[int, Least(1), "head dim of V"]
    window: Annotated[int | None, Least(1), "keys that a query sees, its own included; null: all up to its own"]
    heads: Annotated[int, Least(1), "query heads"]
    causal: Annotated[bool, "a query sees no key behind its own"] = True
    softcap: Annotated[float, _CAP] = 0.0
    scale: Annotated[float | None, _SCALE] = None
    sink_logits: Annotated[bool, _SINKS] = False
    alibi: bool = False

    @property
    def mask(self) -> str | None:
        """The mask as ``--mask`` takes it; None = causal."""
        if self.window is not None:
            return f"window:{self.window - 1},{0 if self.causal else self.window - 1}"
        return None if self.causal else "none"


@dataclass(frozen=True, kw_only=True)
class Model:
    """The attention layers of a model: one entry for each kind that it has, local ones first."""

    name: Annotated[str, "of the preset, or the path of the configuration"]
    title: Annotated[str, Then("heads")]
    layers: Annotated[tuple[Layers, ...], Then(*OF_SCORES)]
    calls: Annotated[int, Least(1), "attention calls of one layer"] = 1
    latent: Annotated[Count, "columns of the latent row of multi-head latent attention; 0: none"] = 0
    latent_rope: Annotated[Count, "its further columns, the rotary key"] = 0
    other_layers: Annotated[Count, "layers without softmax attention"] = 0
    cross_layers: Annotated[Count, "layers whose keys are another input's"] = 0
    assumed: Annotated[str, "what was taken for granted about a model that no table knows; empty: nothing"] = ""
    facts: Annotated[Mapping[str, Fact], "everything that was read, each with its source"] = field(
        default_factory=dict, hash=False
    )

    @property
    def heads(self) -> Annotated[int, Least(1), _HEADS]:
        return self.layers[0].heads

    @property
    def softcap(self) -> Annotated[float, _CAP]:
        return self.layers[0].softcap

    @property
    def scale(self) -> Annotated[float | None, _SCALE]:
        return self.layers[0].scale

    @property
    def sink_logits(self) -> Annotated[bool, _SINKS]:
        return self.layers[0].sink_logits

    @property
    def alibi(self) -> bool:
        return self.layers[0].alibi

    @property
    def causal(self) -> bool:
        """No query sees a key behind its own: the model writes token after token."""
        return all(layers.causal for layers in self.layers)

    def flags(
        self, layers: Layers, phase: LayerPhase, tp: int = 1, *, one_query: bool = False
    ) -> dict[str, str | bool]:
        """The problem flags that the model decides; batch and lengths are not among them.

        Args:
            layers: one of the model's kinds.
            tp: devices among which the heads are divided.
            one_query: each sequence has one query, so the causal mask hides nothing.

        Raises:
            ImpossibleProblem: P019, the heads cannot be divided so.
        """
        heads = self._divided(layers.heads, tp, "heads")
        absorbed = self.latent > 0 and phase is LayerPhase.DECODE
        scale = layers.scale
        if absorbed:
            shape = {"kv_heads": 1, "hdim": self.latent + self.latent_rope, "mla_rope": self.latent_rope}
            scale = scale if scale is not None else layers.hdim**-0.5  # that of the heads before absorption
        else:
            shape = {"kv_heads": self._divided(layers.kv_heads, tp, "key/value heads", least=1), "hdim": layers.hdim}
            shape |= {"hdim_v": layers.hdim_v} if layers.hdim_v != layers.hdim else {}
        out: dict[str, str | bool] = {"heads": str(heads), **{name: str(size) for name, size in shape.items()}}
        if layers.mask is not None:
            out["mask"] = layers.mask
        elif not one_query:
            out["mask"] = "causal"
        out |= {"softcap": repr(layers.softcap)} if layers.softcap else {}
        out |= {"scale": repr(scale)} if scale is not None else {}
        out |= {"sink_logits": FILLED} if layers.sink_logits else {}
        return {**out, "alibi": True} if layers.alibi else out

    def _divided(self, number: int, tp: int, what: str, least: int = 0) -> int:
        """The heads of one device. Key/value heads that are fewer than the devices are copied, so each has one."""
        if number % tp == 0:
            return number // tp
        if least and number < tp and tp % number == 0:
            return least
        why = "every device has the same number of heads" + (", or a copy of one key/value head" if least else "")
        most = max(layers.heads for layers in self.layers)
        ways = ", ".join(str(n) for n in range(1, most + 1) if self._fits(n))
        raise ImpossibleProblem(
            f"--tp {tp}: {self.name} has {number} {what}",
            code="P019",
            where="--tp",
            why=why,
            help=f"--tp one of {ways}",
        )

    def _fits(self, tp: int) -> bool:
        kv = [layers.kv_heads for layers in self.layers]
        whole = all(layers.heads % tp == 0 for layers in self.layers)
        return whole and all(n % tp == 0 or (n < tp and tp % n == 0) for n in kv)


def model_of(name: str, title: str, facts: Mapping[str, Fact], assumed: str = "") -> Model:
    """The model that facts make.

    Args:
        assumed: as ``Model.assumed``.

    Raises:
        ValueError: a fact is missing, unknown, of another type or out of range, or two of them contradict each other.
    """
    for key, fact in facts.items():
        _check(key, fact)
    lacking = [key for key in _NEEDED if key not in facts]
    if lacking:
        raise ValueError(f"lacks {', '.join(lacking)}")
    values = {key: fact.value for key, fact in facts.items()}

    def size(key: str, default: int = 0) -> int:
        return cast(int, values.get(key, default))

    layers, window, calls = size("layers"), values.get("window"), size("calls", 1)
    local = size("local_layers", layers if window is not None else 0)
    if local > layers:
        raise ValueError(f"{local} local layers of {layers}")
    if local and window is None:
        raise ValueError(f"{local} local layers without a window")
    if ("latent" in values) != ("latent_rope" in values):
        raise ValueError("latent and latent_rope need each other")
    near = Layers(
        kind=LayerKind.LOCAL,
        count=local * calls,
        heads=size("heads"),
        kv_heads=size("kv_heads"),
        hdim=size("hdim"),
        hdim_v=size("hdim_v", size("hdim")),
        window=size("window"),
        causal=bool(values.get("causal", True)),
        softcap=float(values.get("softcap", 0.0)),
        scale=float(values["scale"]) if "scale" in values else None,
        sink_logits=bool(values.get("sink_logits")),
        alibi=bool(values.get("alibi")),
    )
    far = replace(
        near,
        kind=LayerKind.GLOBAL,
        count=(layers - local) * calls,
        heads=size("global_heads", near.heads),
        kv_heads=size("global_kv_heads", near.kv_heads),
        hdim=size("global_hdim", near.hdim),
        hdim_v=size("global_hdim_v", size("global_hdim", near.hdim_v)),
        window=None,
        scale=float(values["global_scale"]) if "global_scale" in values else near.scale,
        sink_logits=bool(values.get("global_sink_logits", near.sink_logits)),
    )
    for one in (near, far):
        if one.heads % one.kv_heads:
            raise ValueError(f"{one.heads} heads are not a multiple of {one.kv_heads} key/value heads")
    return Model(
        name=name,
        title=title,
        layers=tuple(one for one in (near, far) if one.count),
        calls=calls,
        latent=size("latent"),
        latent_rope=size("latent_rope"),
        other_layers=size("other_layers"),
        cross_layers=size("cross_layers"),
        assumed=assumed,
        facts={key: facts[key] for key in FACTS if key in facts},
    )


def _check(key: str, fact: Fact) -> None:
    """Raises ValueError: an unknown fact, or a value that it cannot have."""
    value = fact.value
    if key not in FACTS:
        raise ValueError(f"{key}: no such fact")
    if not fact.source:
        raise ValueError(f"{key} has no source")
    if key in SWITCHES:
        good = isinstance(value, bool)
    elif key in NUMBERS:
        good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    else:
        good = type(value) is int and value >= (0 if key in _MAY_BE_0 else 1)
    if not good:
        raise ValueError(f"{key} {value!r}: not a value that it can have")
