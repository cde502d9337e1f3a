"""The language model that a text means: a GGUF file, a config.json, a folder, or ``NAME:QUANTISATION`` of a named model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from latcast.errors import ModelError
from latcast.llm import read_facts
from latcast.llm.configuration import read_configuration, stated_quantisation
from latcast.llm.decoder import LanguageModel
from latcast.llm.tensor_types import quantise, recipe_named
from latcast.reading import read_json
from latcast.registry import nearest_names

_NOISE = frozenset(
    re.findall(
        r"\w+",
        """instruct chat it base pt hf gguf reasoning thinking sft dpo moe qat dwq text code preview mlx dynamic beta meta latest
        litert lm float16 gpu ane npu cpu ov openvino cw onnx unsloth abliterated uncensored""",
    )
)
"""Words of names that change no size."""

_STATED = re.compile(
    r"(?<![a-z0-9])(?:(?:ud|i1)[-_])?"
    r"(i?q[1-8](?:_[0-9a-z]{1,3}){1,3}|tq[12]_0|mxfp4|nvfp4|b?f16|fp16|fp8|[3-8]-?bit|int[48]|w[48]a16|gptq|awq|bnb)(?![a-z0-9])"
)
"""Quantisations in names of files and repositories: ``Qwen3-4B-UD-Q4_K_XL.gguf``, ``Llama-3.2-1B-Instruct-4bit``."""

_SIZE = re.compile(r"(?<![a-z0-9])([0-9]+(?:\.[0-9]+)?)([bm])(?![a-z0-9])")


def is_language_model(text: str) -> bool:
    """Return whether a text means a language model: a file or folder of one, or the name of one."""
    path, _ = _path_and_quantisation(text)
    if path is not None:
        kind = _kind_of(path)
        if kind != "config.json" or path.is_file():
            return kind != ""
        try:  # the folder of another network may have a config.json too
            return bool(_read_path(path, ""))
        except ModelError:
            return not any(each.suffix in (".onnx", ".tflite", ".pt2", ".param") for each in path.iterdir())
    front = text.partition(":")[0]
    looks = text.lower().endswith((".gguf", "config.json")) or _recipe(text.rpartition(":")[2]) or _SIZE.search(front.lower())
    return bool(looks) or _named(text) is not None or _find(front) is not None or bool(_family(front))


def read_language_model(text: str, quantisation: str = "") -> LanguageModel:
    """Return the language model that a text means, quantised where its weights' types are stated.

    Args:
        text: A GGUF file, a Hugging Face config.json or its folder, a folder of onnxruntime-genai, or a name; all but the first
            may have a quantisation behind a colon.
        quantisation: The same, given apart.

    Raises:
        ModelError: It cannot be read, there is no such name or quantisation, or the file fixes the types of its weights.
    """
    path, suffix = _path_and_quantisation(text)
    found = None if path else _named(text)
    if found:
        suffix = found[1]
    if suffix and quantisation and recipe_named(suffix) != recipe_named(quantisation):
        raise ModelError(f"'{text}' has the quantisation '{suffix}', and '{quantisation}' was given; leave out one")
    chosen = suffix or quantisation
    if path:
        return _read_path(path, chosen)
    if found is None:
        raise ModelError(_unknown(text))
    model = _named_model(found[0])
    return quantise(model, chosen) if chosen else model


def stating_quantisation(text: str, quantisation: str = "") -> str:
    """Return a model's text with a quantisation: the usual one behind a name where neither argument states any."""
    found = None if quantisation or _path_and_quantisation(text)[0] else _named(text)
    if found is None or found[1]:
        return text
    usual = _PUBLISHED_IN.get(named_models()[found[0]]["model_type"], USUAL_QUANTISATION)
    return f"{text}:{usual}"


USUAL_QUANTISATION = "q4_k_m"
"""Quantisation of Ollama's tags that state none."""

_PUBLISHED_IN: Mapping[str, str] = {"gpt_oss": "mxfp4"}
"""Quantisations of models that are published in four bits, by their type."""


def named_models() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of all named models: keys of a configuration, ``published`` parameters, ``source``, ``also`` names."""
    found: Mapping[str, Mapping[str, Any]] = read_facts("named_models.json")["models"]
    return found


def _path_and_quantisation(text: str) -> tuple[Path | None, str]:
    """Return the existing path that a text begins with, and the quantisation behind its colon; None for no path."""
    if os.path.exists(text):  # of which an impossible path is none
        return Path(text), ""
    front, _, suffix = text.rpartition(":")
    return (Path(front), suffix) if front and os.path.exists(front) else (None, "")


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return next((name for name in ("genai_config.json", "config.json") if (path / name).is_file()), "")
    if path.suffix.lower() == ".gguf":
        return "gguf"
    return path.name if path.name == "genai_config.json" else "config.json" if path.name.endswith("config.json") else ""


def _read_path(path: Path, quantisation: str) -> LanguageModel:
    kind = _kind_of(path)
    if kind == "config.json":
        file = path / kind if path.is_dir() else path
        values = read_json(file, error=ModelError)
        if not isinstance(values, dict):
            raise ModelError(f"{file}: found a {type(values).__name__}, expected the object of a config.json")
        model, chosen = read_configuration(values, str(path)), quantisation or stated_quantisation(values, str(path))
        return quantise(model, chosen) if chosen else model
    if quantisation:
        raise ModelError(f"{path}: its file fixes the types of its weights; leave out the quantisation '{quantisation}'")
    if kind == "gguf":
        from latcast.llm.gguf import read_gguf

        return read_gguf(path, str(path))
    if kind == "genai_config.json":
        from latcast.llm.onnx_folder import read_onnx_folder

        return read_onnx_folder(path if path.is_dir() else path.parent)
    raise ModelError(f"{path}: found no language model, expected a .gguf file, a config.json or a folder with one")


def named_as(text: str) -> str | None:
    """Return the named model that a text means; None for files and unknown names."""
    found = None if _path_and_quantisation(text)[0] else _named(text)
    return found[0] if found else None


@cache
def _names() -> Mapping[str, str]:
    """Return the model's name by each of its spellings, joined."""
    return {_joined(each): name for name, entry in named_models().items() for each in (*entry.get("also", ()), name)}


@cache
def _named_model(name: str) -> LanguageModel:
    facts = {key: value for key, value in named_models()[name].items() if key not in ("published", "source", "also")}
    return read_configuration(facts, name)


@lru_cache(4096)
def _named(text: str) -> tuple[str, str] | None:
    """Return the named model and the quantisation that a text means; None where it names no model.

    A tag is a quantisation, or what a library of models calls a variant: ``llama3.2:1b``, ``phi4-mini:3.8b-q4_K_M``.
    """
    front, _, tag = text.rpartition(":")
    stated = _stated(text)
    if front and _recipe(tag):
        inner = _named(front)
        return (inner[0], tag) if inner and _stated(front) in ("", _recipe(tag)) and inner[1] in ("", _stated(front)) else None
    if name := _find(text):
        return name, stated
    if name := _find(front):
        sizes = [float(size) * (1e9 if unit == "b" else 1e6) for size, unit in _SIZE.findall(tag.lower())]
        if sizes and all(abs(size / named_models()[name]["published"] - 1) < _ROUNDED for size in sizes):
            return name, stated
        return (name, tag) if _joined(tag) else (name, stated)
    family = _family(text)
    return (family[0], stated) if len(family) == 1 else None


_ROUNDED = 0.25
"""How far a size in a tag may be from the published one: parts that look up rows are left out of some."""


def _stated(text: str) -> str:
    """Return the recipe that a name states anywhere; empty where it states none."""
    found = _STATED.findall(text.lower().replace("-bit", "bit"))
    return _recipe("-".join(found)) or next(filter(None, map(_recipe, found)), "")


def _recipe(text: str) -> str:
    """Return the recipe that a text names; empty where it names none."""
    try:
        return recipe_named(text) if text else ""
    except ModelError:
        return ""


def _find(text: str) -> str | None:
    """Return the named model of the last part of a text, between slashes, that names one."""
    parts = [part for part in text.strip().split("/") if part]
    spellings = (each for part in reversed(parts) for each in (part, part.partition("_")[2]))
    return next((name for each in spellings if (name := _names().get(_joined(each)))), None)


def _family(text: str) -> list[str]:
    """Return the models whose names go on with a size or a version where a text ends: ``gemma3n`` with e2b and e4b."""
    begin = _joined(text.strip().rpartition("/")[2])
    longer = (name for joined, name in _names().items() if joined.startswith(begin) and re.match("e?[0-9]", joined[len(begin) :]))
    return list(dict.fromkeys(longer)) if len(begin) > 1 else []


def _joined(name: str) -> str:
    """Return the letters and digits of a name that distinguish sizes, in lower case."""
    text = _STATED.sub(
        lambda found: "" if _recipe(found[1]) else found[0],
        re.sub(r"[-._]v(0[-._][0-9]+|1[-._]0)(?![0-9])|\.gguf$", "", name.lower().replace("-bit", "bit")),
    )
    words = (re.sub(r"^v(?=[0-9])", "", word) for word in re.split(r"[^a-z0-9]+", text))
    return "".join(word for word in words if word not in _NOISE and not re.fullmatch(r"[0-9]{4}|[0-9]+k", word))


def _unknown(text: str) -> str:
    front = text.rpartition(":")[0]
    if _find(front) and _stated(front):
        return f"found two quantisations in '{text}', expected one, as in '{_find(front)}:{_stated(front)}'"
    if text.lower().endswith((".gguf", "config.json")):
        return f"there is no file '{text}'; expected a .gguf file, a config.json or the name of a language model"
    if family := _family(text):
        more = f" and {len(family) - 6} more" if len(family) > 6 else ""
        return (
            f"'{text}' names {len(family)} language models: {', '.join(family[:6])}{more}; expected one, as in {family[0]}:q4_k_m"
        )
    near = nearest_names(text.rpartition("/")[2].lower(), list(named_models()))
    return (
        f"there is no file '{text}', and no language model is named so; nearest: {', '.join(near) or 'none'}; "
        "give a .gguf file or a config.json for others"
    )
