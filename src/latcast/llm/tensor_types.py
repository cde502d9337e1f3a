"""Types of weights: their bits, and the recipes by which a runtime's tools choose a type for each matrix.

GGML's types and recipes are those of llama.cpp (``src/llama-quant.cpp``, ``llama_tensor_get_type``); the others are what MLX,
OpenVINO, ONNX Runtime, Qualcomm's and Rockchip's tools write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from latcast.chips.chip_table import Chip
from latcast.errors import ModelError
from latcast.llm import read_facts
from latcast.llm.decoder import EXPERTS, LanguageModel, Matrix, Role
from latcast.registry import nearest_names

_FACTS: Mapping[str, Any] = read_facts("tensor_types.json")
"""Types, recipes and spellings; see the file's note."""

GGML_TYPES: Mapping[int, tuple[str, int, int]] = {int(number): tuple(facts) for number, facts in _FACTS["types"].items()}
"""By number: name, weights in a block, bytes of a block."""

FILE_TYPES: Mapping[int, str] = {int(number): recipe for number, recipe in _FACTS["file_types"].items()}
"""Recipes by GGUF's ``general.file_type``."""

_BLOCKS: Mapping[str, tuple[int, int]] = {name: (weights, size) for name, weights, size in GGML_TYPES.values()}


def _parsed_recipes() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Return, by name, the type of most matrices and the rules by role."""
    found: dict[str, tuple[str, Mapping[str, str]]] = {}
    for name, text in _FACTS["recipes"].items():
        base, *rules = text.split()
        base, inherited = found[base[1:]] if base.startswith("@") else (base, {})
        found[name] = (base, {**inherited, **dict(rule.split("=") for rule in rules)})
    return found


_RECIPES = _parsed_recipes()
_FLOATS = frozenset(["f16", "bf16", "f32", "mxfp4", "nvfp4", ""])

_GROUPED = re.compile(r"(w4a16|w8a8|int4|int8)_g(\d{2,4})")
_LINEAR = re.compile(r"linear-(int[2-8](?:_g\d{1,4})?)")
"""Linear layers in integers, head and table in half precision: what GPTQ, AWQ and others of Hugging Face's library write."""
_LADDER = ("iq1_s", "iq2_xxs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs", "q5_k", "q6_k", "q8_0")
_SIZED = re.compile(r"[_-](\d{1,2}(?:\.\d{1,4})?)_?bpw$")


def kind_of_weights(model: LanguageModel) -> str:
    """Return the formats of weights by which runtimes differ: ``ggml``, ``mlx``, ``integer``; empty where all are floats."""
    kinds = {
        "mlx" if name.startswith("mlx") else "ggml" if name in _BLOCKS else "integer"
        for name in {matrix.tensor_type for matrix in model.matrices if matrix.used} - _FLOATS
        if not name.startswith("bits")
    }
    return " and ".join(sorted(kinds))


def runs(runtime: str, weights: str) -> bool:
    """Return whether a runtime computes with weights of a kind; of a runtime that is not known nothing is refused."""
    known = _FACTS["runtimes"].get(runtime)
    return not weights or known is None or weights in known["weights"]


def made_for(runtime: str, chip: Chip, unit_kind: str) -> bool:
    """Return whether a runtime computes on a unit of a chip, by vendor, size and the generations that the runtime leaves out."""
    facts, vendor = _FACTS["runtimes"].get(runtime, {}), chip.vendor.lower()
    fits = vendor in facts.get("vendors", [vendor]) and not chip.is_microcontroller
    generation = {"gpu": chip.gpu_family, "npu": chip.npu}.get(unit_kind)
    return fits and generation not in facts.get("left_out", ())


def offered(runtime: str) -> Sequence[str]:
    """Return the usual quantisations of a runtime, the finest first."""
    found: Sequence[str] = _FACTS["runtimes"].get(runtime, _FACTS["runtimes"]["llama.cpp"])["offered"]
    return found


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
    for name in (text, text.replace("_", "-"), text.replace("_", "-", 1), _FACTS["spellings"].get(text, "")):
        if name in _RECIPES or _GROUPED.fullmatch(name) or _LINEAR.fullmatch(name):
            return f"{name}-{size[1]}bpw" if size else name
    near = nearest_names(text, [*_RECIPES, *_FACTS["spellings"]])
    raise ModelError(
        f"'{quantisation[:40]}' is not a quantisation that is known; nearest: {', '.join(near) or 'none'}; expected one of "
        "llama.cpp's, such as q8_0, q4_k_m, q4_0 or iq4_xs, or mlx-4bit, int4, int8, w4a16, onnx-int4, or groups as int4_g128"
    )


def quantise(model: LanguageModel, quantisation: str) -> LanguageModel:
    """Return a model that has no types yet with those that a recipe gives its matrices.

    Raises:
        ModelError: There is no such recipe.
    """
    name = recipe_named(quantisation)
    recipe = _SIZED.sub("", name)
    if found := _LINEAR.fullmatch(recipe):
        base, rules = found[1], _RECIPES["linear-int"][1]
    elif found := _GROUPED.fullmatch(recipe):
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
    for part in (*rule.split(","), base):
        condition, _, tensor_type = part.rpartition(":")
        share = min(rest, _share(condition, model))
        if share > 0:
            kind = _fitting(tensor_type, matrix.columns)
            yield replace(matrix, stored=matrix.stored * share, used=matrix.used * share, tensor_type=kind)
        rest -= share


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
    for candidate in (tensor_type, _FACTS["fallbacks"].get(tensor_type, "f16")):
        if columns % _BLOCKS.get(candidate, (1, 0))[0] == 0:
            return candidate
    return "f16"
