"""Language models on this machine: a profile of stacks of layers judged on whole models under llama.cpp."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.judge import Columns, table, target_cell
from benchmarks.result_files import keep, kept_parts
from latcast.llm.forecast import predict_language_model
from latcast.measure.language_models import measure_language_model
from latcast.tables import signed
from latcast.training.language_profile import profile_language_models

MODELS = (
    "smollm2-135m:q8_0",
    "ernie-4.5-0.3b:q4_0",
    "minicpm4-0.5b:q5_k_m",
    "qwen1.5-0.5b:q4_k_m",
    "qwen3-0.6b:q6_k",
    "olmo-1b:q4_k_m",
)
"""Whole models of 0.1 to 1.2 billion parameters: a fourth draw. On the one before the prices of attention and of unpacking for a
batch were found."""

PROMPT, ANSWER = 192, 64


def language_models_here(
    budget: Annotated[float, typer.Option("--budget", help="Minutes of the profile.")] = 5.0,
    threads: Annotated[int, typer.Option("--threads", "-t")] = 1,
    machine: Annotated[str, typer.Option("--machine", help="What the tables call the machine.")] = "this one",
) -> None:
    """Profile this machine with llama.cpp, predict whole models, measure them, and keep the figures."""
    profiled = profile_language_models(60 * budget, threads)
    predicted = predict_language_model(MODELS, profiled.platform, prompt_tokens=PROMPT, generated_tokens=ANSWER)
    rows = []
    for found in predicted:
        measured = measure_language_model(found.model, PROMPT, ANSWER, threads)
        rows.append(judged(found.to_json(), measured))
        print(rows[-1], flush=True)
    name = f"llama.cpp-cpu{threads}" + ("" if machine == "this one" else f"-{machine.split(',')[0].lower().replace(' ', '-')}")
    keep(
        f"language_models_here/{name}",
        {"platform": profiled.platform, "machine": machine, "stacks": profiled.stacks, "spread": profiled.spread, "models": rows},
    )
    print(here_table())


def judged(predicted: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """Return a model's measured speeds, the errors of those predicted in percent of the time, and whether the intervals hold."""
    row: dict[str, Any] = {"model": predicted["model"]}
    for phase in ("prefill", "decode"):
        speed, low, high = (predicted[f"{phase}_{part}tokens_per_s"] for part in ("", "low_", "high_"))
        true = measured[f"{phase}_tokens_per_s"]
        row |= {f"{phase}_tokens_per_s": true, f"{phase}_error": 100 * (true / speed - 1), f"{phase}_inside": low <= true <= high}
    return row


def here_table(documents: dict[str, Any] | None = None) -> str:
    """Return a line for each profile: errors of both phases, and the models that they are of."""
    rows = []
    for found in (kept_parts("language_models_here") if documents is None else documents).values():
        models = found["models"]
        row: dict[str, Any] = {**found, "count": len(models)}
        for phase in ("prefill", "decode"):
            errors = np.array([each[f"{phase}_error"] for each in models])
            row[phase] = {
                "mape": float(np.mean(np.abs(errors))), "worst": float(errors[np.argmax(np.abs(errors))]),
                "inside": sum(each[f"{phase}_inside"] for each in models),
            }  # fmt: skip
        rows.append(row)
    columns: Columns = {
        "platform": lambda row: row["platform"].removeprefix("local/"),
        "machine": "{machine}",
        "stacks": "{stacks}",
        "repeats vary by %": "{spread:.1f}",
    }
    for phase, target in (("prefill", 6.0), ("decode", 5.0)):
        columns |= {
            f"{phase}: MAPE % (worst)": lambda row, phase=phase: (
                f"{row[phase]['mape']:.1f} ({signed(row[phase]['worst'])})"
            ),
            f"{phase}: in the 90 % interval": f"{{{phase}[inside]}} of {{count}}",
            f"{phase}: target": lambda row, phase=phase, target=target: target_cell(target, row[phase]["mape"]),
        }  # fmt: skip
    return table(rows, columns)
