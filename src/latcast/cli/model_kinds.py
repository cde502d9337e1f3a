"""Which of the models that a command is given are networks, and which language models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

OF_LANGUAGE_MODELS = frozenset(("--context", "--generate", "--max-memory", "--max-ttft", "--min-decode", "--prompt", "--quant"))
"""Options that only language models take."""

OF_NETWORKS = frozenset((
    "--accuracy", "--against", "--all-hints", "--app", "--beside", "--breakdown", "--budget", "--by", "--cpus", "--device",
    "--diff", "--fail-above", "--format", "--fps", "--input", "--library-path", "--made-up-weights", "--max-growth",
    "--max-memory-mb", "--max-ms", "--min-fps", "--output", "--overlay", "--params", "--plot", "--precision", "--realtime",
    "--rounds", "--runs-per-round", "--runtime", "--scheduler", "--shape", "--signature", "--start", "--strict", "--sustain",
    "--top", "--trained-on", "--trust", "--unit", "--value", "--verbose", "--warmup-runs",
))  # fmt: skip
"""Options that only networks take, but for those that a command's language models take, too: see :func:`split_models`."""


def split_models(call: typer.Context, models: Sequence[str], *shared: str, llm: bool = False) -> tuple[list[str], list[str]]:
    """Return the texts that mean networks, and those that mean language models.

    Args:
        call: Of the command.
        shared: Options in :data:`OF_NETWORKS` that language models take, too.
        llm: Whether language models are asked for where none is named.

    Raises:
        BadParameter: All models are of one kind, and an option was given that only the other takes.
    """
    _refuse_unquoted(call.params.get("on") or "", models)
    networks: list[str] = []
    language: list[str] = []
    for text in models:
        (language if means_language_model(text) else networks).append(text)
    if networks and language:
        return networks, language
    kind, other, refused = "network", "language models", OF_LANGUAGE_MODELS
    if language or llm:
        kind, other, refused = "language model", "networks", OF_NETWORKS.difference(shared)
    sources = {each.opts[0]: call.get_parameter_source(each.name or "") for each in call.command.params}
    given = [name for name, source in sources.items() if name in refused and source and source.name == "COMMANDLINE"]
    if given:
        said, them = f"'{models[0]}' is a {kind}" if models else "none was given", "it" if len(given) == 1 else "them"
        if networks and not (Path(models[0]).is_file() or _names_network(models[0])):
            said = f"'{models[0]}' is none, of which there are NAME:QUANTISATION, .gguf files and folders with a config.json"
        raise typer.BadParameter(f"only {other} take {', '.join(given)}, and {said}; leave {them} out")
    return networks, language


def _refuse_unquoted(on: str, models: Sequence[str]) -> None:
    """Refuse the words of a device's name that the shell took for models: ``--on Pixel 7``.

    Raises:
        BadParameter: They are.
    """
    words = [
        text for text in models if text != "-" and not Path(text).exists() and not Path(text).suffix and not _names_network(text)
    ]
    if on and "/" not in on and words and not means_language_model(words[-1]):
        from latcast.predictors.bundle_index import platform_ids
        from latcast.predictors.platform_names import read_name

        whole = " ".join((on, *words))
        if read_name(whole, platform_ids()) is not None:
            raise typer.BadParameter(f"a device's name of several words needs quotes: --on '{whole}'")
        if read_name(words[-1], platform_ids()) is not None:
            raise typer.BadParameter(
                f"'{words[-1]}' is a device, where a model is expected; --on takes several: --on '{on},{words[-1]}'"
            )


def means_language_model(text: str) -> bool:
    """Return whether a text names a language model or its file, and no network."""
    if text.endswith((".onnx", ".tflite", ".pt2", ".param", ".json")) and not text.endswith("config.json"):
        return False
    from latcast.llm.reading import is_language_model

    # "tiny_vit_5m_224" has a size like a language model's.
    return is_language_model(text) and (":" in text or Path(text).exists() or not _names_network(text))


def _names_network(text: str) -> bool:
    from latcast.spaces.model_names import find_in_any_spelling

    return find_in_any_spelling(text) is not None
