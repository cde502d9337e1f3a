"""Measuring language models on this machine with llama.cpp: files as they are, and stacks of layers that prices are learned from.

llama.cpp runs in a process of its own: a file that makes it fail ends that process alone.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from latcast.environment import cpu_description
from latcast.errors import MeasurementError, ModelError, RuntimeFailure
from latcast.llm.configuration import read_configuration
from latcast.llm.decoder import LanguageModel
from latcast.llm.reading import read_language_model
from latcast.llm.tensor_types import bytes_of, quantise
from latcast.reading import parse_json
from latcast.runtimes.llama_cpp import PhaseTimes, Reference, Session, time_phases, version, write_made_up

SHAPES = (
    # hidden size, heads, key-value heads, size of a head, feed-forward size, vocabulary
    (1024, 16, 8, 64, 4096, 32000), (1536, 12, 2, 128, 4096, 32000), (2048, 16, 16, 128, 5632, 16384),
    (768, 12, 12, 64, 3072, 50304), (1280, 20, 4, 64, 6912, 24576), (2048, 32, 8, 64, 8192, 49152),
    (640, 10, 2, 64, 1792, 32000),
)  # fmt: skip
"""Layers that prices are learned from: none is a published model's. The last are as narrow and so many as in the smallest models,
which separates what a kernel costs from what a token does."""

QUANTISATIONS = (
    "q4_0", "q8_0", "q4_k_m", "q6_k", "q5_k_m", "f16", "q5_1", "q5_0", "iq4_nl", "q4_0", "q8_0", "q4_k_m", "q6_k", "q3_k_m",
    "q4_1", "q2_k", "iq4_xs",
)  # fmt: skip
"""Recipes in the order of measuring, those that people use most first and often; Q5_0, Q5_1 and IQ4_NL are what rows become that
are no multiple of 256."""

PROMPTS = (64, 512)
"""Tokens of the prompts timed: two lengths separate reading weights from computing. Shorter prompts have another kernel of
attention, and longer ones come in batches."""

BEYOND_CACHE = 1.25
"""Weights of a stack over the last cache: what stays in a cache is read faster than a whole model is."""

LEAST_BYTES, MOST_BYTES = 64e6, 400e6

REFERENCE = {
    "model_type": "llama", "hidden_size": 1536, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 4096, "vocab_size": 32000, "num_hidden_layers": 3,
}  # fmt: skip
"""Sizes of the model that is timed in turn with all others."""


@dataclass(frozen=True)
class TimedModel:
    """A language model that was timed on this machine.

    Attributes:
        configuration: Its sizes, as a config.json has them.
        quantisation: Recipe of its weights.
        threads: Threads it ran with.
        prefill_s, decode_s, spread: See :class:`latcast.runtimes.llama_cpp.PhaseTimes`.
    """

    configuration: Mapping[str, Any]
    quantisation: str
    threads: int
    prefill_s: Mapping[int, float]
    decode_s: Mapping[int, float]
    spread: float

    @property
    def model(self) -> LanguageModel:
        """Return the model."""
        return quantise(read_configuration(self.configuration, str(self.configuration["name"])), self.quantisation)


def platform_here(threads: int, device: str = "local") -> str:
    """Return the platform id of llama.cpp on this machine's CPU."""
    return f"{device}/llama.cpp-{version()}/cpu{threads}/unstated"


def stacks(count: int, least_bytes: float) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield stacks of layers to time: configuration and quantisation, each of at least ``least_bytes`` of weights."""
    times = Counter[str]()
    for index, quantisation in enumerate(islice(cycle(QUANTISATIONS), count)):
        # Another shape each time that a recipe comes: it meets them all.
        place = QUANTISATIONS.index(quantisation) + times[quantisation]
        times[quantisation] += 1
        hidden, heads, key_value_heads, head, feed_forward, vocabulary = SHAPES[place % len(SHAPES)]
        sizes = {
            "model_type": "llama", "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": key_value_heads,
            "head_dim": head, "intermediate_size": feed_forward, "vocab_size": vocabulary, "tie_word_embeddings": True,
        }  # fmt: skip
        one, two = (_weight_bytes({**sizes, "num_hidden_layers": layers}, quantisation) for layers in (1, 2))
        layers = 1 + max(1, round((least_bytes - one) / (two - one)))
        yield {**sizes, "num_hidden_layers": layers, "name": f"stack{index}"}, quantisation


def _weight_bytes(configuration: Mapping[str, Any], quantisation: str) -> float:
    model = quantise(read_configuration(configuration, "stack"), quantisation)
    return sum(bytes_of(matrix, matrix.stored) for matrix in model.matrices)


def stack_bytes() -> float:
    """Return the weights of a stack on this machine: more than its last cache holds, within bounds."""
    caches = cpu_description().get("caches_bytes") or {}
    return min(max(BEYOND_CACHE * max(caches.values(), default=0), LEAST_BYTES), MOST_BYTES)


def time_stacks(
    budget_s: float, threads: int, store: Path, show: Callable[[float, str], None] = lambda share, text: None
) -> list[TimedModel]:
    """Time stacks of layers for a while, in turn with a reference model, and return all that the store holds.

    Each result is kept in ``store`` (JSON Lines) at once; those kept for as many threads are not timed again.

    Args:
        budget_s: Seconds; a stack that would not end in time is not begun.
        threads: Threads to run with, pinned to the last CPUs.
        store: File to add to.
        show: Is told the share of the budget that passed, and what is timed.

    Raises:
        MissingExtraError: llama.cpp is not installed.
    """
    began = time.monotonic()
    found = [each for each in read_store(store) if each.threads == threads]
    known = {(str(each.configuration), each.quantisation) for each in found}
    longest = 0.0
    store.parent.mkdir(parents=True, exist_ok=True)
    with _apart(threads) as pool, store.open("a", encoding="utf-8") as kept:
        for configuration, quantisation in stacks(len(known) + 400, stack_bytes()):
            if (str(configuration), quantisation) in known:
                continue
            passed = time.monotonic() - began
            if passed + longest > budget_s:
                break
            show(passed / budget_s, f"{quantisation}, {configuration['hidden_size']} wide")
            at = time.monotonic()
            times = _result(pool, _time_stack, configuration, quantisation, threads)
            longest = max(longest, time.monotonic() - at)
            found.append(TimedModel(configuration, quantisation, threads, times.prefill_s, times.decode_s, times.spread))
            kept.write(json.dumps(asdict(found[-1])) + "\n")
            kept.flush()
    return found


def read_store(store: Path) -> list[TimedModel]:
    """Return what a store holds; a last line that was cut off is left out."""
    if not store.exists():
        return []
    found = []
    for line in store.read_text(encoding="utf-8").splitlines():
        try:
            values = parse_json(line, str(store), error=MeasurementError)
        except MeasurementError:
            continue
        for name in ("prefill_s", "decode_s"):
            values[name] = {int(tokens): seconds for tokens, seconds in values[name].items()}
        found.append(TimedModel(**values))
    return found


def measure_language_model(
    text: str, prompt_tokens: int, generated_tokens: int, threads: int, repeats: int = 3
) -> dict[str, Any]:
    """Return the speeds of a language model under llama.cpp: of a prompt, and of tokens halfway through the answer to it.

    Args:
        text: A GGUF file, which runs with its own weights, or ``NAME:QUANTISATION`` and config.json files of dense models, which
            are written with made-up weights.
        prompt_tokens: Tokens of the prompt.
        generated_tokens: Tokens of the answer.
        threads: Threads, pinned to the last CPUs.
        repeats: Rounds, of which the median counts.

    Raises:
        MeasurementError: llama.cpp does not run the file.
        MissingExtraError: llama.cpp is not installed.
        ModelError: There is no such model, or it cannot be written with made-up weights.
    """
    model: LanguageModel | Path = Path(text) if text.lower().endswith(".gguf") else read_language_model(text)
    if isinstance(model, LanguageModel) and not all(matrix.tensor_type for matrix in model.matrices):
        raise ModelError(f"{text}: found no quantisation; name one, as in '{text}:q4_0'")
    platform, halfway = platform_here(threads), prompt_tokens + max(generated_tokens // 2, 1)
    limit = (model if isinstance(model, LanguageModel) else read_language_model(text)).context_limit
    if limit is not None and prompt_tokens + generated_tokens > limit:
        raise ModelError(f"{text}: found {prompt_tokens + generated_tokens} tokens, expected at most the {limit} of its context")
    with _apart(threads) as pool:
        times = _result(pool, _time_model, model, (prompt_tokens, halfway), threads, repeats)
    return {
        "platform": platform, "prompt_tokens": prompt_tokens, "generated_tokens": generated_tokens,
        "prefill_tokens_per_s": prompt_tokens / times.prefill_s[prompt_tokens],
        "decode_tokens_per_s": 1 / times.decode_s[halfway],
        "first_token_ms": 1e3 * times.prefill_s[prompt_tokens],
        "variation_pct": 100 * times.spread,
    }  # fmt: skip


# In the process apart


def _apart(threads: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _pin, (threads,))


def _result(pool: ProcessPoolExecutor, function: Callable[..., PhaseTimes], *arguments: Any) -> PhaseTimes:
    try:
        return pool.submit(function, *arguments).result()
    except BrokenProcessPool as problem:
        raise RuntimeFailure("llama.cpp ended its process; the file may be damaged, or memory too small") from problem


def _pin(threads: int) -> None:
    """Keep this process on the last CPUs that it may use."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[-threads:])


def _time_stack(configuration: Mapping[str, Any], quantisation: str, threads: int) -> PhaseTimes:
    model = quantise(read_configuration(configuration, "stack"), quantisation)
    reference = _reference(threads)
    with _written(model, max(PROMPTS) + 32, threads) as session:
        return time_phases(session, PROMPTS, repeats=1, reference=reference)


@cache
def _reference(threads: int) -> Reference:
    return Reference(_written(quantise(read_configuration(REFERENCE, "reference"), "q8_0"), 128, threads))


def _written(model: LanguageModel, context_tokens: int, threads: int) -> Session:
    """Return a session of a model with made-up weights; its file is gone once it is loaded, and its pages stay."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_made_up(model, path)
        return Session(path, context_tokens, threads)


def _time_model(model: LanguageModel | Path, prompts: Sequence[int], threads: int, repeats: int) -> PhaseTimes:
    tokens = max(prompts) + 32
    with _written(model, tokens, threads) if isinstance(model, LanguageModel) else Session(model, tokens, threads) as session:
        return time_phases(session, prompts, repeats=repeats)
