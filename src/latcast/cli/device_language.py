"""``latcast device add``, ``suggest`` and ``kit`` of language models: speeds measured by llama-bench, and what to measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from latcast.cli.output import print_json, print_table, warn
from latcast.errors import counted
from latcast.records import UNSTATED

UNKNOWN = "unknown-device/llama.cpp-unstated/cpu4/unstated"
"""Platform id of a device of which nothing is known."""

_SCRIPT = """#!/bin/sh
# Times language models with llama-bench: sh run.sh [FOLDER_OF_GGUF_FILES] [llama-bench with options]
# On a phone: adb push llama-bench run.sh *.gguf /data/local/tmp/ && adb shell "cd /data/local/tmp && sh run.sh . ./llama-bench"
# Then: adb pull /data/local/tmp/llama-bench.jsonl && latcast device add NAME -u cpu4 -r llama.cpp -m llama-bench.jsonl
folder=${1:-.}
bench=${2:-llama-bench}
: > llama-bench.jsonl
for pattern in PATTERNS; do
  file=$(find "$folder" -iname "*$pattern*.gguf" | head -n 1)
  if [ -z "$file" ]; then echo "missing: a file like *$pattern*.gguf in $folder" >&2; continue; fi
  $bench -m "$file" -p LENGTHS -n 64 -r 3 -o jsonl >> llama-bench.jsonl || echo "failed: $file" >&2
done
echo "wrote llama-bench.jsonl"
"""


def kit(output: Path, *, as_json: bool) -> None:
    """Write a folder with the script that times the pairs, and their list."""
    from latcast.folders import made
    from latcast.llm.design import PROMPTS

    folder, found = made(output), _telling(None, 6)[1]
    patterns = " ".join(f"{model}*{quantisation}".replace(".", "?") for model, quantisation in found)
    script = _SCRIPT.replace("PATTERNS", f"'{patterns}'".replace(" ", "' '")).replace("LENGTHS", ",".join(map(str, PROMPTS)))
    (folder / "run.sh").write_text(script, encoding="utf-8")
    (folder / "models.txt").write_text("".join(f"{model}:{quantisation}\n" for model, quantisation in found), encoding="utf-8")
    if as_json:
        print_json({"folder": str(folder), "prompt_tokens": list(PROMPTS), "pairs": [":".join(pair) for pair in found]})
        return
    print_table(f"{len(found)} pairs to time with {folder / 'run.sh'}", ("model", "quantisation"), found)


def add(name: str, unit: str, runtime: str, chip: str, files: Sequence[Path], output: Path | None, *, as_json: bool) -> None:
    """Learn a platform's prices from measured speeds, and keep them."""
    from latcast.datasets.importers.measured_speeds import read_measured_speeds
    from latcast.errors import DatasetError
    from latcast.llm.learned_prices import FAMILIAR, PHASES, known_prices, pair_of, save_added
    from latcast.llm.speeds import machine_of
    from latcast.records import Platform

    platform = Platform.stated(name, runtime, unit, UNSTATED).id
    read = [read_measured_speeds(file, platform, chip) for file in files]
    measured = [each for found, _ in read for each in found]
    unknown = sorted({text for _, texts in read for text in texts})
    for text in unknown:
        warn(
            f"left out '{text}': no model and quantisation that latcast knows; llama-bench -o jsonl states the file, whose "
            "name tells, as in qwen2.5-1.5b-q4_0.gguf"
        )
    if not measured:
        raise DatasetError(f"{files[0]}: found no model that latcast knows; expected names as latcast models --llm lists them")
    learned = known_prices().adapted(machine_of(platform, chip), measured)
    written = save_added(learned, platform, output)
    machine, pairs = learned.machines[platform], sorted({pair_of(each) for each in measured})
    expected = {phase: learned.width(phase, platform, FAMILIAR)[1] for phase in PHASES}
    document = {
        "platform": platform,
        "file": str(written),
        "chip": machine.chip,
        "pairs": [":".join(pair) for pair in pairs],
        "left_out": unknown,
        "expected_error_pct": expected,
    }
    if as_json:
        print_json(document)
        return
    if not machine.chip:
        warn(f"nothing is known of the chip of {name}; --chip names it")
    print_table(f"{platform}: learned from {counted(len(pairs), 'pair')}", ("model", "quantisation"), pairs)
    errors = ", ".join(f"{phase} ±{error:.0f} %" for phase, error in expected.items())
    print(f"expected error of other models: {errors}; {'written: ' + str(written) if output else 'known by its name now'}")


def suggest(device: str | None, count: int, *, as_json: bool) -> None:
    """Print the pairs to time next on a device: those after which the least is unknown of others."""
    from latcast.llm.design import PROMPTS
    from latcast.llm.learned_prices import model_of

    platform, found = _telling(device, count)
    if as_json:
        print_json({"prompt_tokens": list(PROMPTS), "pairs": [":".join(pair) for pair in found]})
        return
    of, lengths = platform if device else "an unknown device", " and ".join(map(str, PROMPTS))
    print_table(
        f"{len(found)} pairs that tell most of {of}, at prompts of {lengths} tokens",
        ("model", "quantisation", "parameters"),
        [(*pair, f"{model_of(*pair).parameters / 1e6:.0f} M") for pair in found],
    )


def _telling(device: str | None, count: int) -> tuple[str, list[tuple[str, str]]]:
    """Return the first platform that a device means, and the pairs that tell the most of it."""
    from latcast.llm.design import telling_pairs
    from latcast.llm.forecast import language_platforms_meant
    from latcast.llm.learned_prices import known_prices
    from latcast.llm.speeds import machine_of

    if device is None:
        return UNKNOWN, telling_pairs(known_prices().with_machine(machine_of(UNKNOWN)), UNKNOWN, count)
    platforms, prices = language_platforms_meant(device, known_prices())
    return platforms[0], telling_pairs(prices, platforms[0], count)
