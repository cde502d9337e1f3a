"""Types of weights: their bits, and the recipes by which a runtime's tools choose a type for each matrix.

GGML's types and recipes are those of llama.cpp (``src/llama-quant.cpp``, ``llama_tensor_get_type``); the others are what MLX,
OpenVINO, ONNX Runtime, Qualcomm's and Rockchip's tools write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from latcast.errors import ModelError
from latcast.llm.decoder import EXPERTS, LanguageModel, Matrix, Role
from latcast.registry import nearest_names

GGML_TYPES: Mapping[int, tuple[str, int, int]] = MappingProxyType({
    0: ("f32", 1, 4), 1: ("f16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22), 7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34), 9: ("q8_1", 32, 36), 10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110), 12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176), 14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292), 16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50), 20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136), 24: ("i8", 1, 1), 25: ("i16", 1, 2), 26: ("i32", 1, 4), 27: ("i64", 1, 8), 28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56), 30: ("bf16", 1, 2), 34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4", 32, 17),
    40: ("nvfp4", 64, 36),
})  # fmt: skip
"""By number: name, weights in a block, bytes of a block (``ggml.h``)."""

_BLOCKS: Mapping[str, tuple[int, int]] = {name: (weights, size) for name, weights, size in GGML_TYPES.values()}

_FALLBACKS: Mapping[str, str] = MappingProxyType({
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs", "q2_k", "q3_k"), "iq4_nl"),
    "tq1_0": "q4_0", "tq2_0": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
})  # fmt: skip
"""Types of 32 weights a block, taken where a row is no multiple of 256."""

_RECIPES_TEXT = """
    q2_k      q2_k     value=grouped:q4_k,q3_k down=q3_k attention_output=q3_k recurrent_output=q4_k
    q2_k_s    q2_k     value=grouped:q4_k down=eighth:q4_k
    q3_k_s    q3_k
    q3_k_m    q3_k     value=two:q5_k,q4_k down=sixteenth:q5_k,q4_k attention_output=q4_k recurrent_output=q4_k
    q3_k_l    q3_k     value=q5_k down=q5_k attention_output=q5_k recurrent_output=q5_k
    q4_0      q4_0
    q4_1      q4_1
    q5_0      q5_0
    q5_1      q5_1
    q4_k_s    q4_k     value=four:q5_k down=eighth:q5_k recurrent_output=q5_k
    q4_k_m    q4_k     value=more:q6_k down=more:q6_k query_key_value=q5_k recurrent_output=q5_k
    q5_k_s    q5_k
    q5_k_m    q5_k     value=more:q6_k down=more:q6_k query_key_value=q6_k recurrent_output=q6_k
    q6_k      q6_k     recurrent_output=q8_0
    q8_0      q8_0     output=q8_0
    iq1_s     iq1_s    value=grouped:q4_k,q2_k down=eighth:q2_k attention_output=iq2_xxs output=q5_k embedding=q2_k
    iq1_m     iq1_m    value=grouped:q4_k,q2_k down=eighth:q2_k attention_output=iq2_xxs output=q5_k embedding=q2_k
    iq2_xxs   iq2_xxs  value=grouped:q4_k,q2_k down=eighth:q2_k output=q5_k embedding=q2_k
    iq2_xs    iq2_xs   value=grouped:q4_k,q2_k down=eighth:q2_k output=q5_k embedding=q2_k
    iq2_s     iq2_xs   value=grouped:q4_k,iq3_s down=eighth:iq3_s attention_output=iq3_s output=q5_k embedding=iq3_s
    iq2_m     iq2_s    value=grouped:q4_k,iq3_s down=eighth:iq3_s attention_output=iq3_s output=q5_k embedding=iq3_s
    iq3_xxs   iq3_xxs  value=grouped:q4_k query=iq2_s key=iq2_s attention_output=iq3_s output=q5_k embedding=iq3_s
    iq3_xs    iq3_s    value=grouped:q4_k query=iq3_xxs key=iq3_xxs gate=middle:iq3_xxs up=middle:iq3_xxs
    iq3_s     iq3_s    value=grouped:q4_k
    iq3_m     iq3_s    value=q4_k query_key_value=q4_k down=eighth:q4_k attention_output=q4_k
    iq4_xs    iq4_xs   value=grouped:q5_k
    iq4_nl    iq4_nl   value=grouped:q5_k
    tq1_0     tq1_0    embedding=q4_k
    tq2_0     tq2_0    embedding=q4_k
    mxfp4     q8_0     expert_gate=mxfp4 expert_up=mxfp4 expert_down=mxfp4 output=q8_0
    f32       f32      output=f32
    f16       f16      output=f16
    bf16      bf16     output=bf16
    q2_k_l    @q2_k    output=q8_0 embedding=q8_0
    q3_k_xl   @q3_k_l  output=q8_0 embedding=q8_0
    q4_k_l    @q4_k_m  output=q8_0 embedding=q8_0
    q5_k_l    @q5_k_m  output=q8_0 embedding=q8_0
    q6_k_l    @q6_k    output=q8_0 embedding=q8_0
    q4_k_xl   @q4_k_m
    q5_k_xl   @q5_k_m
    q6_k_xl   @q6_k    output=q8_0 embedding=q8_0 value=q8_0 query_key_value=q8_0 down=more:q8_0
    q8_k_xl   q8_0     output=f16 embedding=f16 layer_embedding=q8_0 value=f16 recurrent=f16 recurrent_output=f16
    mlx-3bit  mlx3     output=mlx3
    mlx-4bit  mlx4     output=mlx4
    mlx-5bit  mlx5     output=mlx5
    mlx-6bit  mlx6     output=mlx6
    mlx-8bit  mlx8     output=mlx8
    int4      int4_g128  output=int8 embedding=int8
    int8      int8       output=int8
    w4a16     int4       output=int8 embedding=f16
    w8a16     int8       output=int8 embedding=f16
    w8a8      int8       output=int8 embedding=f16
    gptq      int4_g128  output=f16 embedding=f16
    awq       int4_g128  output=f16 embedding=f16
    onnx-int4 int4_g32   output=int4_g32 embedding=f16
"""
"""Name, type of most matrices, and rules by role: a type, or conditions on the layer with a type each, of which the first that
holds counts. The head is Q6_K where nothing is said, and a tied embedding has its type. With ``@`` a recipe adds to another."""


def _parsed_recipes() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    found: dict[str, tuple[str, Mapping[str, str]]] = {}
    for line in _RECIPES_TEXT.strip().split("\n"):
        name, base, *rules = line.split()
        base, inherited = found[base[1:]] if base.startswith("@") else (base, {})
        found[name] = (base, {**inherited, **dict(rule.split("=") for rule in rules)})
    return found


_RECIPES = _parsed_recipes()

_SPELLINGS: Mapping[str, str] = MappingProxyType({
    "fp16": "f16", "fp32": "f32", "4bit": "mlx-4bit", "8bit": "mlx-8bit", "mlx4": "mlx-4bit", "mlx8": "mlx-8bit", "w4": "w4a16",
    "int4_mixed": "int4", "int4_sym": "int4", "int8_cw": "int8", "mxfp4_moe": "mxfp4", "q3_k": "q3_k_m", "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
})  # fmt: skip

_GROUPED = re.compile(r"(w4a16|w8a8|int4|int8)_g(\d{2,4})")
_LADDER = ("iq1_s", "iq2_xxs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs", "q5_k", "q6_k", "q8_0")
_SIZED = re.compile(r"[_-](\d{1,2}(?:\.\d{1,4})?)_?bpw$")


@cache
def bits_of(tensor_type: str) -> float:
    """Return the bits that a weight takes, scales included.

    Raises:
        ModelError: It is not a known type.
    """
    if tensor_type in _BLOCKS:
        weights, size = _BLOCKS[tensor_type]
        return 8 * size / weights
    if found := re.fullmatch(r"int([2-8])(?:_g([1-9]\d{0,8}))?", tensor_type):
        return int(found[1]) + (16 / int(found[2]) if found[2] else 0)
    if found := re.fullmatch(r"bits([0-9]{1,2}(?:\.[0-9]+)?)", tensor_type):
        return float(found[1])
    if found := re.fullmatch(r"mlx([2-8])", tensor_type):
        return int(found[1]) + 0.5  # a scale and a bias of 16 bits for 64 weights
    raise ModelError(f"'{tensor_type}' is not a type of weights that is known; expected one such as q4_k, f16, int4_g128 or mlx4")


def bytes_of(matrix: Matrix, copies: float) -> float:
    """Return the bytes of so many copies of a quantised matrix."""
    return matrix.rows * matrix.columns * copies * bits_of(matrix.tensor_type) / 8


def quantisations() -> tuple[str, ...]:
    """Return the names of all recipes, without spellings and groups."""
    return tuple(_RECIPES)


def recipe_named(quantisation: str) -> str:
    """Return a recipe's name as :func:`quantise` writes it, however it is spelled: ``Q4_K - Medium`` is ``q4_k_m``.

    Raises:
        ModelError: There is no such recipe; the message lists what there is.
    """
    text = re.sub(r" - [0-9.]+ bpw$", "", quantisation.strip().lower())  # which llama-bench prints of the type
    text = re.sub(r"_(small|medium|large)$", lambda found: f"_{found[1][0]}", re.sub(r"[\s_-]+", "_", text))
    size = _SIZED.search(text)
    text = _SIZED.sub("", text.removeprefix("ud_"))
    for name in (text, text.replace("_", "-"), _SPELLINGS.get(text, "")):
        if name in _RECIPES or _GROUPED.fullmatch(name):
            return f"{name}-{size[1]}bpw" if size else name
    near = nearest_names(text, [*_RECIPES, *_SPELLINGS])
    raise ModelError(
        f"'{quantisation}' is not a quantisation that is known; nearest: {', '.join(near) or 'none'}; "
        f"there are {', '.join(_RECIPES)}, and int4_g128 or the like for groups"
    )


def quantise(model: LanguageModel, quantisation: str) -> LanguageModel:
    """Return a model that has no types yet with those that a recipe gives its matrices.

    Raises:
        ModelError: There is no such recipe.
    """
    name = recipe_named(quantisation)
    recipe = _SIZED.sub("", name)
    if found := _GROUPED.fullmatch(recipe):
        base, rules = re.sub(r"w(\d)a\d+", r"int\1", found[1]) + f"_g{found[2]}", _RECIPES[found[1]][1]
    else:
        base, rules = _RECIPES[recipe]
    matrices = [typed for matrix in model.matrices for typed in _typed(matrix, model, base, rules)]
    notes = model.notes
    if size := _SIZED.search(name):
        matrices = _of_size(matrices, base, float(size[1]))
    if size or recipe.endswith("_xl"):
        notes = (*notes, f"which layers of '{name}' have which type is not published: types are shared out by size")
    return replace(model, matrices=tuple(matrices), quantisation=name, notes=notes)


def _of_size(matrices: Sequence[Matrix], base: str, bits: float) -> list[Matrix]:
    """Return matrices of which a share has another type than ``base``, so that weights take so many bits on average.

    Raises:
        ModelError: No type brings them there.
    """
    missing = sum(matrix.parameters * (bits - bits_of(matrix.tensor_type)) for matrix in matrices)
    changeable = sum(matrix.parameters for matrix in matrices if matrix.tensor_type == base)
    for other in sorted(_LADDER, key=lambda each: abs(bits_of(each) - bits_of(base))):
        change = changeable * (bits_of(other) - bits_of(base))
        if change and 0 <= missing / change <= 1:
            share = missing / change
            parts = ((base, 1 - share), (other, share))
            return [
                replace(matrix, stored=matrix.stored * part, used=matrix.used * part, tensor_type=kind)
                for matrix in matrices
                for kind, part in (parts if matrix.tensor_type == base else ((matrix.tensor_type, 1.0),))
            ]
    raise ModelError(f"found {bits:g} bits a weight of {base}, expected about the {bits_of(base):g} that it has")


def _typed(matrix: Matrix, model: LanguageModel, base: str, rules: Mapping[str, str]) -> Iterator[Matrix]:
    """Yield a matrix by the types that its layers get."""
    role: Role = matrix.role
    if role in ("router", "other"):
        yield replace(matrix, tensor_type="f16" if base in ("f16", "bf16") else "f32")
        return
    if model.architecture == "gpt-oss" and role in EXPERTS:  # published so, and left so by every recipe
        yield replace(matrix, tensor_type="mxfp4")
        return
    tied = not any(each.role == "output" and each.stored for each in model.matrices)
    if role == "output" or (tied and role in ("embedding", "layer_embedding")):
        own = rules.get("layer_embedding") if role == "layer_embedding" else None
        rule = own or rules.get("output", "q8_0" if model.architecture == "falcon" else "q6_k")
    elif role in ("embedding", "layer_embedding"):
        rule = rules.get("embedding", base)
    else:
        # Newer releases, which alone know linear attention, take its joined matrix for a value.
        role = "value" if role == "query_key_value" and model.recurrent else role
        rule = rules.get(role) or rules.get(role.removeprefix("expert_")) or base
    rest = 1.0
    for condition, tensor_type in _conditions(rule, base):
        share = min(rest, _share(condition, model))
        if share > 0:
            yield replace(
                matrix,
                stored=matrix.stored * share,
                used=matrix.used * share,
                tensor_type=_fitting(tensor_type, matrix.columns),
            )
        rest -= share


def _conditions(rule: str, base: str) -> Iterator[tuple[str, str]]:
    for part in (*rule.split(","), base):
        condition, _, tensor_type = part.rpartition(":")
        yield condition, tensor_type


def _share(condition: str, model: LanguageModel) -> float:
    """Return the share of layers for which a condition of llama.cpp's recipes holds."""
    if not condition:
        return 1.0
    if condition == "grouped":
        first = model.attention[0] if model.attention else None
        return float(first is not None and first.heads >= 4 * first.key_value_heads)
    layers = model.layers
    eighth = layers // 8
    if condition == "more":
        more = sum(i < eighth or i >= 7 * layers // 8 or (i - eighth) % 3 == 2 for i in range(layers))
        return more / layers
    count = {"two": 2, "four": 4, "sixteenth": layers // 16, "eighth": eighth, "middle": 7 * layers // 8 - eighth}[condition]
    return min(1.0, count / layers)


def _fitting(tensor_type: str, columns: int) -> str:
    """Return a type, or the one that takes its place where a row is no multiple of its block."""
    for candidate in (tensor_type, _FALLBACKS.get(tensor_type, "f16")):
        if columns % _BLOCKS.get(candidate, (1, 0))[0] == 0:
            return candidate
    return "f16"
