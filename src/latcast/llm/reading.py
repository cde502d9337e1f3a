"""The language model that a text means: a GGUF file, a config.json, a folder, or ``NAME:QUANTISATION`` of a named model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from latcast.errors import ModelError
from latcast.llm.configuration import read_configuration, stated_quantisation
from latcast.llm.decoder import LanguageModel
from latcast.llm.tensor_types import quantise, recipe_named
from latcast.reading import parse_json, read_json
from latcast.registry import nearest_names

_NOISE = frozenset(
    re.findall(
        r"\w+",
        """instruct chat it base pt hf gguf reasoning thinking sft dpo moe qat text preview mlx dynamic gptq awq beta meta
        litert lm 4bit 8bit int4 int8 float16 fp16 f16 bf16 gpu ane npu cpu""",
    )
)
"""Words of names that change no size."""


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
    return text.lower().endswith((".gguf", "config.json")) or _named(text) is not None or _find(front) is not None


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


@cache
def named_models() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of all named models: keys of a configuration, ``published`` parameters, ``source``, ``also`` names."""
    text = files("latcast.llm").joinpath("named_models.json").read_text(encoding="utf-8")
    entries: Mapping[str, Mapping[str, Any]] = parse_json(text, "named_models.json", error=ModelError)["models"]
    return entries


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
        model, stated = read_configuration(values, str(path)), stated_quantisation(values)
        return quantise(model, quantisation or stated) if quantisation or stated else model
    if quantisation:
        raise ModelError(f"{path}: its file fixes the types of its weights; leave out the quantisation '{quantisation}'")
    if kind == "gguf":
        from latcast.llm.gguf import read_gguf

        return read_gguf(path, str(path))
    if kind == "genai_config.json":
        from latcast.llm.onnx_folder import read_onnx_folder

        return read_onnx_folder(path if path.is_dir() else path.parent)
    raise ModelError(f"{path}: found no language model, expected a .gguf file, a config.json or a folder with one")


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
    """Return the named model and the quantisation that a text means; None where it names no model."""
    front, colon, suffix = text.rpartition(":")
    if colon and (name := _find(front)):
        return name, suffix
    name = _find(text)
    return (name, "") if name else None


def _find(text: str) -> str | None:
    """Return the named model of the last part of a text, between slashes, that names one."""
    parts = [part for part in text.strip().split("/") if part]
    spellings = (each for part in reversed(parts) for each in (part, part.partition("_")[2]))
    return next((name for each in spellings if (name := _names().get(_joined(each)))), None)


def _joined(name: str) -> str:
    """Return the letters and digits of a name that distinguish sizes, in lower case."""
    text = re.sub(r"[-._]v0[-._][0-9]+(?![0-9])|([-._](ud|i1))?[-._](i?q[1-8]\w*|tq[12]_0|mxfp4|b?f16)$", "", name.lower())
    words = (re.sub(r"^v(?=[0-9])", "", word) for word in re.split(r"[^a-z0-9]+", text))
    return "".join(word for word in words if word not in _NOISE and not re.fullmatch(r"[0-9]{4}|[0-9]+k", word))


def _unknown(text: str) -> str:
    if text.count(":") > 1 and _find(text.partition(":")[0]):
        return f"found two quantisations in '{text}', expected one, as in '{text.partition(':')[0]}:q4_k_m'"
    if text.lower().endswith((".gguf", "config.json")):
        return f"there is no file '{text}'; expected a .gguf file, a config.json or the name of a language model"
    near = nearest_names(text.rpartition("/")[2].lower(), list(named_models()))
    return (
        f"there is no file '{text}', and no language model is named so; nearest: {', '.join(near) or 'none'}; "
        "give a .gguf file or a config.json for others"
    )
