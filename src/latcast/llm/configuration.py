"""From a Hugging Face ``config.json`` to a :class:`~latcast.llm.decoder.LanguageModel`: matrices counted from the stated sizes.

Sizes that a configuration does not state are refused or noted, never guessed; defaults are those of the library's own classes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from latcast.errors import ModelError
from latcast.llm import read_facts
from latcast.llm.decoder import AttentionLayers, LanguageModel, Matrix, RecurrentLayers, Role

MOST_LAYERS, MOST_SIZE = 2_000, 2**31 - 1

ENCODERS = re.compile(r"bert|^(clip|vit|t5|t5encoder|mt5|whisper)$")
"""Architectures that generate no tokens one after the other, or read the prompt by another part than the decoder."""

_TEXT_PARTS = ("text_config", "language_config", "llm_config", "thinker_config")


def architectures() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts that configurations do not state, by model type; see the file's note."""
    found: Mapping[str, Mapping[str, Any]] = read_facts("architectures.json")["types"]
    return found


class Facts:
    """The facts that a configuration states, each under any of its names."""

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self.values, self.name = dict(values), name
        for key, others in read_facts("architectures.json")["names"].items():
            stated = (values[each] for each in (key, *others) if values.get(each) is not None)
            self.values[key] = next(stated, None)

    def number(self, key: str, *, default: int | None = None, most: int = MOST_SIZE) -> int:
        """Return a whole number from 0.

        Raises:
            ModelError: It is missing without a default, or is something else.
        """
        value = self.values.get(key)
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]
        if value is None and default is not None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            raise ModelError(f"{self.name}: found no '{key}', expected a decoder's config.json that states it")
        if type(value) is not int or not 0 <= value <= most:
            raise ModelError(f"{self.name}: found {key} = {repr(value)[:60]}, expected a whole number from 0 to {most}")
        return value

    def size(self, key: str, *, default: int | None = None, most: int = MOST_SIZE) -> int:
        """Return a whole number from 1; see :meth:`number`."""
        found = self.number(key, default=default, most=most)
        if not found:
            raise ModelError(f"{self.name}: found {key} = 0, expected a decoder's config.json with a positive one")
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else bool(value)

    def items(self, key: str) -> Sequence[Any]:
        """Return a list of at most so many items as there may be layers, or an empty one."""
        value = self.values.get(key)
        return value if isinstance(value, list) and len(value) <= MOST_LAYERS else ()


def read_configuration(configuration: Mapping[str, Any], name: str) -> LanguageModel:
    """Return the model that a configuration describes, without types of weights.

    Raises:
        ModelError: It is not a decoder's, or a size that is needed is missing or impossible.
    """
    return _Decoder(configuration, name).model()


def stated_quantisation(configuration: Mapping[str, Any], name: str) -> str:
    """Return the quantisation that a configuration states its weights to have; empty where it states none.

    Raises:
        ModelError: It states one whose bits are not known.
    """
    stated = configuration.get("quantization_config") or configuration.get("quantization")
    if not stated:
        return ""
    values = {**stated, **_innermost(stated)} if isinstance(stated, dict) else {}
    method, grouped = str(values.get("quant_method", "mlx")).lower(), 64 if values.get("load_in_4bit") is True else None
    if "nvfp4" in str(stated).lower():
        return "nvfp4"
    if method == "mxfp4" and configuration.get("model_type") == "gpt_oss":
        return "bf16"  # every recipe leaves its experts as they were published
    bits = 4 if grouped else next((values[key] for key in ("bits", "num_bits", "nbits", "w_bit") if key in values), None)
    bits = read_facts("architectures.json")["quantisation_bits"].get(method) if bits is None else bits
    if type(bits) is not int or not 2 <= bits <= 8:
        found = str(stated if method == "mlx" else method)[:40]
        raise ModelError(f"{name}: found the quantisation '{found}', whose bits are not known; name one with --quant, as q4_k_m")
    group = values.get("group_size", values.get("q_group_size", grouped))
    if method == "mlx":
        return f"mlx-{bits}bit"
    return f"linear-int{bits}" + (f"_g{group}" if type(group) is int and 8 <= group <= 9999 else "")


def _innermost(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of the first group of weights that a configuration nests."""
    for key in ("config_groups", "quant_config", "weight_quant_params", "weights", "group_0"):
        if isinstance(inner := stated.get(key), dict):
            return {**inner, **_innermost(inner)}
    return {}


class _Decoder:
    """The matrices of one configuration, as they are counted."""

    def __init__(self, configuration: Mapping[str, Any], name: str) -> None:
        values = configuration
        while part := next((each for each in _TEXT_PARTS if isinstance(values.get(each), dict)), None):
            values = {"tie_word_embeddings": values.get("tie_word_embeddings"), **values[part]}
        family = values.get("model_type")
        if not isinstance(family, str):
            raise ModelError(f"{name}: found no model_type, expected the config.json of a decoder")
        self.family = family = family.removesuffix("_text")
        self.known = architectures().get(family, {})
        self.facts = facts = Facts({**self.known.get("defaults", {}), **values}, name)
        classes = facts.items("architectures")
        generates = not classes or any(re.search("CausalLM|ConditionalGeneration|LMHead", str(each)) for each in classes)
        encoder = not classes and ENCODERS.search(family)
        if facts.flag("is_encoder_decoder") or encoder or not (generates or family in architectures()):
            raise ModelError(f"{name}: found {classes[0] if classes else 'an encoder'}, expected the config.json of a decoder")
        self.layers = facts.size("num_hidden_layers", most=MOST_LAYERS)
        self.hidden = facts.size("hidden_size")
        self.gated = self.known.get("gated", True)
        unknown = f"the model type '{family}' is not known: its layers are counted as a usual decoder's"
        self.notes = [] if family in architectures() else [unknown]
        self.matrices: list[Matrix] = []
        self.attention: list[AttentionLayers] = []
        self.recurrent: list[RecurrentLayers] = []
        self.kinds = self._layer_kinds()
        self.sharing = facts.number("num_kv_shared_layers", default=0, most=self.layers)

    def model(self) -> LanguageModel:
        facts, hidden = self.facts, self.hidden
        vocabulary = facts.size("vocab_size")
        counts = Counter(self.kinds)
        owning = Counter(self.kinds[: self.layers - self.sharing])
        for kind, layers in counts.items():
            if kind in ("full", "sliding"):
                self._add_attention(kind, layers, owning[kind])
            elif kind == "hybrid":  # attention and a state side by side
                self._add_attention("full", layers, layers)
                self._add_recurrent("mamba2", layers)
            elif kind != "none":
                self._add_recurrent(kind, layers)
        expert_layers = self._add_feed_forward()
        self._add_embeddings(vocabulary)
        if extra := facts.number("num_nextn_predict_layers", default=0):
            self._add_prediction_layers(extra)
        vectors = self.known.get("vectors", 2) * self.layers + 1
        return LanguageModel(
            name=facts.name,
            architecture=self.known.get("gguf", self.family.replace("_", "")),
            layers=self.layers,
            hidden_size=hidden,
            vocabulary=vocabulary,
            context_limit=facts.number("max_position_embeddings", default=0) or None,
            matrices=tuple(self.matrices),
            attention=tuple(self.attention),
            recurrent=tuple(self.recurrent),
            expert_layers=expert_layers,
            vectors=vectors,
            vector_parameters=vectors * hidden,
            notes=tuple(self.notes),
        )

    def _add(self, role: Role, rows: int, columns: int, stored: float, used: float | None = None) -> None:
        if stored or used:
            self.matrices.append(Matrix(role, rows, columns, stored, stored if used is None else used))

    def _layer_kinds(self) -> list[str]:
        """Return each layer's kind: full or sliding attention, none, hybrid, or a kind of state."""
        facts, layers, known = self.facts, self.layers, self.known
        between = known.get("mixer_between", "sliding")
        state = "mamba2" if between == "sliding" else between
        if mixer := known.get("mixer"):
            return [mixer] * layers
        every = facts.values.get("full_attention_interval")
        stated: Sequence[Any]
        if isinstance(pattern := facts.values.get("hybrid_override_pattern"), str):
            stated = ["mamba2" if sign == "M" else "full" if sign == "*" else "none" for sign in pattern]
        elif isinstance(every, str) and every:  # EXAONE's "LLLG"
            stated = ["full" if every[layer % len(every)] == "G" else "sliding" for layer in range(layers)]
        elif stated := facts.items("layer_types"):
            words = {**read_facts("architectures.json")["layer_types"], "mamba": "mamba" if state == "mamba" else "mamba2"}
            if unknown := [each for each in stated if not isinstance(each, str) or each not in words]:
                raise ModelError(f"{facts.name}: found a layer of type '{unknown[0]}', expected one of {', '.join(words)}")
            stated = [words[each] for each in stated]
        elif full := facts.items("full_attn_idxs"):
            stated = ["full" if layer in full else state for layer in range(layers)]
        elif period := facts.number("attn_layer_period", default=0):
            offset = facts.number("attn_layer_offset", default=0)
            stated = ["full" if layer % period == offset else state for layer in range(layers)]
        else:
            period = facts.number("full_attention_interval", default=known.get("full_attention_every", 1))
            stated = ["full" if period and layer % period == period - 1 else between for layer in range(layers)]
        if len(stated) < layers:
            raise ModelError(f"{facts.name}: found the types of {len(stated)} layers, expected those of {layers}")
        return list(stated[:layers])

    def _add_attention(self, kind: str, layers: int, owning: int) -> None:
        facts, hidden = self.facts, self.hidden
        heads = facts.size("num_attention_heads")
        window = facts.number("sliding_window", default=0) or None if kind == "sliding" else None
        if rank := facts.number("kv_lora_rank", default=0):
            self._add_latent_attention(layers, heads, rank)
            return
        groups = facts.size("num_key_value_heads", default=heads)
        if self.family == "chatglm" and facts.flag("multi_query_attention"):
            groups = facts.size("multi_query_group_num")
        elif facts.flag("multi_query") and not facts.flag("new_decoder_architecture"):
            groups = 1
        if heads % groups:
            raise ModelError(f"{facts.name}: found {groups} key and value heads of {heads}, expected a divisor")
        if facts.values.get("head_dim") is None and hidden % heads:
            raise ModelError(f"{facts.name}: found {hidden} numbers for {heads} heads, expected a multiple or a stated head_dim")
        size = facts.size("head_dim", default=hidden // heads)
        shares_value = False
        if self.family == "gemma4" and kind == "full":
            size = facts.size("global_head_dim", default=size)
            if shares_value := facts.flag("attention_k_eq_v"):
                groups = facts.size("num_global_key_value_heads", default=groups)
        queries = heads * size
        if self.known.get("fused"):
            self._add("query_key_value", queries + 2 * groups * size, hidden, layers)
        else:
            gates = 2 if facts.flag("attn_output_gate", self.known.get("query_gate", False)) else 1
            self._add("query", queries * gates, hidden, layers)
            self._add("key", groups * size, hidden, owning)
            self._add("value", groups * size, hidden, 0 if shares_value else owning)
        self._add("attention_output", hidden, queries, layers)
        self.attention.append(AttentionLayers(layers, heads, groups, size, size, window, owning if owning != layers else None))

    def _add_latent_attention(self, layers: int, heads: int, rank: int) -> None:
        facts, hidden = self.facts, self.hidden
        plain, rotary, value = (facts.size(f"{each}_head_dim") for each in ("qk_nope", "qk_rope", "v"))
        query_rank = facts.number("q_lora_rank", default=0)
        self._add("query", query_rank, hidden, layers if query_rank else 0)
        self._add_each(layers, ("query", heads * (plain + rotary), query_rank or hidden), ("key", rank + rotary, hidden),
                       ("key", heads * plain, rank), ("value", heads * value, rank),
                       ("attention_output", hidden, heads * value))  # fmt: skip
        self.attention.append(AttentionLayers(layers, heads, 1, rank + rotary, 0))

    def _add_each(self, layers: int, *matrices: tuple[Role, int, int]) -> None:
        for role, rows, columns in matrices:
            self._add(role, rows, columns, layers)

    def _add_recurrent(self, kind: str, layers: int) -> None:
        facts, hidden = self.facts, self.hidden
        if kind == "gated_delta":
            size, values = facts.size("linear_key_head_dim"), facts.size("linear_value_head_dim")
            keys, heads = facts.size("linear_num_key_heads") * size, facts.size("linear_num_value_heads")
            values *= heads
            joined, taps, state = 2 * keys + values, facts.size("linear_conv_kernel_dim", default=4), values * size
            self._add_each(layers, ("query_key_value", joined, hidden), ("recurrent", values, hidden), ("other", heads, hidden),
                           ("other", heads, hidden), ("recurrent_output", hidden, values), ("other", joined, taps))  # fmt: skip
            self.recurrent.append(RecurrentLayers("gated_delta", layers, state))
        elif kind == "short_convolution":
            taps = facts.size("conv_L_cache", default=3)
            self._add_each(layers, ("recurrent", 3 * hidden, hidden), ("recurrent", hidden, hidden), ("other", hidden, taps))
            self.recurrent.append(RecurrentLayers("short_convolution", layers, hidden * taps))
        elif kind == "rwkv":
            ranks = sum(facts.size(f"{each}_low_rank_dim", default=64) for each in ("decay", "a", "v", "gate"))
            self._add("recurrent", hidden, hidden, 4 * layers)
            self._add("other", 2 * ranks, hidden, layers)
            self.recurrent.append(RecurrentLayers("rwkv", layers, hidden * facts.size("head_dim", default=64)))
        else:
            state, taps = facts.size("state_size"), facts.size("mamba_d_conv", default=4)
            inner = expanded = facts.size("mamba_expand", default=2) * hidden
            if kind == "mamba2":
                inner = facts.number("mamba_d_ssm", default=0)
                heads = facts.size("mamba_n_heads", default=max(1, inner // 64))
                inner = inner or heads * (facts.number("mamba_d_head", default=0) or expanded // heads)
                mixed = inner + 2 * facts.size("mamba_n_groups", default=1) * state
                self._add_each(layers, ("recurrent", inner + mixed + heads, hidden), ("other", mixed, taps))
            else:
                rank = facts.size("mamba_dt_rank", default=-(-hidden // 16))
                self._add_each(layers, ("recurrent", 2 * inner, hidden), ("recurrent", rank + 2 * state, inner),
                               ("recurrent", inner, rank), ("other", inner, state + taps))  # fmt: skip
            self._add("recurrent_output", hidden, inner, layers)
            self.recurrent.append(RecurrentLayers("mamba2" if kind == "mamba2" else "mamba", layers, inner * state))

    def _add_feed_forward(self) -> int:
        """Add the feed-forward parts; return in how many layers tokens are routed to experts."""
        facts = self.facts
        if self.known.get("mixer", "").startswith("mamba"):
            return 0
        experts = facts.number("num_experts", default=0)
        layers = self.layers
        if isinstance(pattern := facts.values.get("hybrid_override_pattern"), str):
            layers = pattern.count("-") + pattern.count("E")
        sparse = self._expert_layers(layers) if experts else 0
        if not 0 <= sparse <= layers:
            raise ModelError(f"{facts.name}: found {sparse} layers with experts, expected at most the {layers} that there are")
        if dense := layers if self.family == "gemma4" else layers - sparse:  # Gemma 4 has both, side by side
            for width, count in self._widths(dense).items():
                self._add_dense(width, count)
        if sparse:
            self._add_experts(experts, sparse)
        return sparse

    def _widths(self, layers: int) -> Mapping[int, int]:
        """Return how many of the dense layers have which width.

        Raises:
            ModelError: A list of widths is not one of a size for each layer.
        """
        facts = self.facts
        if stated := facts.items("intermediate_size"):
            if len(stated) != self.layers or not all(type(each) is int and 0 < each <= MOST_SIZE for each in stated):
                raise ModelError(f"{facts.name}: found {len(stated)} values of intermediate_size, expected {self.layers} sizes")
            return Counter(stated)
        key = "intermediate_size_mlp" if facts.values.get("intermediate_size_mlp") else "intermediate_size"
        width = facts.size(key, default=None if self.gated else 4 * self.hidden)
        if facts.flag("use_double_wide_mlp") and self.sharing:
            return {width: layers - self.sharing, 2 * width: self.sharing}
        return {width: layers}

    def _add_prediction_layers(self, layers: int) -> None:
        """Add layers that predict further tokens: stored as the last layer is, and not used by a token."""
        sparse = any(matrix.role == "router" for matrix in self.matrices)
        others = ("embedding", "output", "layer_embedding", *(("gate", "up", "down") if sparse else ()))
        self.matrices += [
            replace(matrix, stored=layers * max(1.0, matrix.stored // self.layers), used=0)
            for matrix in self.matrices
            if matrix.role not in others
        ]
        self._add("projection", self.hidden, 2 * self.hidden, layers, 0)

    def _add_dense(self, width: int, layers: int) -> None:
        fused = self.known.get("fused_gate", False)
        self._add("gate", width, self.hidden, layers if self.gated and not fused else 0)
        self._add("up", 2 * width if fused else width, self.hidden, layers)
        self._add("down", self.hidden, width, layers)

    def _add_experts(self, experts: int, layers: int) -> None:
        facts, hidden = self.facts, self.hidden
        active = facts.size("num_experts_per_tok")
        if active > experts:
            raise ModelError(f"{facts.name}: found {active} experts for each token of {experts}, expected at most all")
        width = facts.size("moe_intermediate_size")
        self._add("router", experts, hidden, layers)
        self._add("expert_gate", width, hidden, experts * layers * self.gated, active * layers * self.gated)
        self._add("expert_up", width, hidden, experts * layers, active * layers)
        self._add("expert_down", hidden, width, experts * layers, active * layers)
        shared = facts.number("shared_expert_intermediate_size", default=0)
        count = facts.number("n_shared_experts", default=1 if self.family == "llama4" else 0)
        if shared or count:
            self._add_dense(shared or count * width, layers)

    def _expert_layers(self, layers: int) -> int:
        """Return how many layers have experts instead of a dense feed-forward part."""
        facts = self.facts
        if stated := facts.items("mlp_layer_types"):
            return sum(each in ("sparse", "moe") for each in stated)
        if isinstance(pattern := facts.values.get("hybrid_override_pattern"), str):
            return pattern.count("E")
        first = facts.number("first_k_dense_replace", default=0)
        if stated := facts.items("moe_layer_freq"):
            return sum(map(bool, stated))
        if period := facts.number("expert_layer_period", default=0):
            offset = facts.number("expert_layer_offset", default=0)
            return sum(i % period == offset for i in range(layers))
        step = facts.number("decoder_sparse_step", default=1) or 1
        dense = facts.items("mlp_only_layers")
        return sum((i + 1) % step == 0 and i not in dense for i in range(first, layers))

    def _add_embeddings(self, vocabulary: int) -> None:
        facts, hidden = self.facts, self.hidden
        self._add("embedding", vocabulary, hidden, 1, 0)
        if "positions" in self.known:
            self._add("other", facts.size("max_position_embeddings") + self.known["positions"], hidden, 1, 0)
        if width := facts.number("hidden_size_per_layer_input", default=0):
            rows = facts.size("vocab_size_per_layer_input", default=vocabulary)
            self._add("layer_embedding", rows, width * self.layers, 1, 0)
            self._add("other", width * self.layers, hidden, 1)
            self._add("projection", width, hidden, self.layers)
            self._add("projection", hidden, width, self.layers)
        if inputs := facts.number("altup_num_inputs", default=0):  # Gemma 3n
            rank = facts.size("laurel_rank")
            self._add("other", 2 * rank, hidden, self.layers)
            self._add("other", hidden, hidden, 2 * (inputs - 1))
        tied = facts.flag("tie_word_embeddings", self.known.get("tied", False))
        self._add("output", vocabulary, hidden, 0 if tied else 1, 1)
