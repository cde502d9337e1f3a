"""``latcast device fusion``: which operators a runtime fuses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.lazy_group import command_group
from latcast.cli.output import StageProgress, kept_when_interrupted, percent, print_json, print_table, warn_of_failures

if TYPE_CHECKING:
    from latcast.fusion.detection import Detection
    from latcast.fusion.score import Score
    from latcast.kernels.rules import FusionRules

DECIDED_BY = {
    "profile": "by which kernels take time in the runtime's profiler", "latency": "by latencies from end to end",
}  # fmt: skip

app = command_group("""Which operators a runtime fuses into one kernel.

\b
Examples:
  latcast device fusion detect --runtime onnxruntime
  latcast device fusion show onnxruntime --undecided
""")


@app.command()
@kept_when_interrupted("what was timed is kept: the same command goes on with it")
def detect(
    runtime: options.Runtime = "onnxruntime",
    threads: options.Threads = 1,
    unit: options.ComputeUnit = "",
    precision: options.Precision = "fp32",
    isa: Annotated[str, Option("--isa", help="Highest instruction set (openvino): sse41, avx2, avx512_core...")] = "",
    budget: options.Budget = 5.0,
    profiler: Annotated[
        bool,
        Option("--profiler/--no-profiler", help="Decide by which kernels take time in the runtime's profiler, if it has one."),
    ] = True,
    check: Annotated[bool, Option("--check/--no-check", help="Score the rules by the kernels that were executed.")] = True,
    alpha: Annotated[
        float, Option("--alpha", help="Part of the shorter operator's time that a fusion must save.", min=0.05, max=0.95)
    ] = 0.5,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    device: options.Device = "local",
    store: options.StoreFile = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Where to save the rules. [default: the user's folder]")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Find a runtime's fusion rules by timing small networks; run again, it goes on with what is undecided.

    \b
    Examples:
      latcast device fusion detect --runtime onnxruntime
      latcast device fusion detect --runtime openvino --isa avx2 --budget 10
    """
    from latcast.folders import made, measurements_folder
    from latcast.fusion.detected_rules import detect_rules, rules_path, save_detected_rules

    settings = options.worker_settings(runtime, threads, precision, cpus, realtime, device, unit=unit)
    if store is None:
        name = "+".join([settings.unit_name, *([isa] if isa else [])])
        parts = ("fusion", settings.place, runtime, name, precision)
        store = measurements_folder() / ("-".join(part for part in parts if part) + ".sqlite")
        made(store.parent)
    with StageProgress() as progress:
        found, score = detect_rules(
            settings, store, isa=isa, budget_s=60 * budget, alpha=alpha, profiler=profiler, check=check,
            watch=lambda step: progress.show(step.name, step.share),
        )  # fmt: skip
    path = save_detected_rules(found.rules(), output or rules_path(found.platform))
    warn_of_failures(found.failures, "was left out")
    if as_json:
        print_json(describe(found, score, path))
    else:
        _print_detection(found, score, path)


@app.command()
def show(
    rules: Annotated[
        str, Argument(metavar="RULES", help="A rules file, a platform's id, or the name of a runtime.")
    ] = "onnxruntime",
    undecided: Annotated[bool, Option("--undecided", help="List the pairs that have no answer, and why.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show detected rules, with the evidence as JSON.

    \b
    Examples:
      latcast device fusion show onnxruntime
      latcast device fusion show onnxruntime --undecided
    """
    from latcast.fusion.detected_rules import detected_rules
    from latcast.kernels.rules import load_rules

    found = load_rules(rules) if rules.endswith(".json") else detected_rules(rules)
    if as_json:
        print_json(found.to_json())
        return
    pairs = found.evidence.get("pairs", {})
    title = str(found.evidence.get("platform", f"{found.runtime} {found.version}"))
    if undecided:
        rows = [(name, said.get("problem", "")) for name, said in pairs.items() if said.get("fused") is None]
        print_table(f"{title}: {len(rows)} of {len(pairs)} pairs undecided", ("pair", "why"), rows)
    else:
        _print_rules(title, found)


def describe(found: Detection, score: Score | None, path: Path) -> dict[str, Any]:
    """Return the detection for scripts; shares are from 0 to 1."""
    figures = ("agreement", "judged", "precision", "recall")
    return {
        "runtime": found.platform.runtime,
        "platform": found.platform.id,
        "by": found.quantity.name,
        "rules": found.rules().to_json(),
        "pairs": len(found.pairs),
        "decided": found.decided,
        **{name: None if score is None else getattr(score, name) for name in figures},
        "disagreements": [] if score is None else [item.to_json() for item in score.disagreements],
        "undecided": [list(pair) for pair, answer in found.pairs.items() if answer.fused is None],
        "untold": {} if score is None else score.untold,
        "failures": dict(found.failures),
        "seconds": found.seconds,
        "saved_to": str(path),
    }


def _print_detection(found: Detection, score: Score | None, path: Path) -> None:
    """Print which operators are fused, and how sure that is."""
    rules = found.rules()
    _print_rules(found.platform.id, rules)
    for name, reason in found.connections.reasons.items():
        print(f"{name.replace('_', '-')}: {getattr(rules, name)} ({reason})")
    count = len(found.pairs)
    decided = f"{percent(100 * found.decided)} % of {count} ordered pairs decided in {found.seconds:.0f} s"
    print(f"{decided}, {DECIDED_BY[found.quantity.name]}")
    if score is not None and score.agreement is not None:
        precision, recall = (percent(None if share is None else 100 * share) for share in (score.precision, score.recall))
        print(
            f"agreement with the kernels executed: {percent(100 * score.agreement)} % of {score.judged} decided pairs; "
            f"of the fusions found {precision} % were executed, of those executed {recall} % found"
        )
        for item in score.disagreements:
            said = "fused" if item.detected else "apart"
            print(f"  {' + '.join(item.question)}: timing says {said}; {item.explanation}")
    print(f"rules: {path}")


def _print_rules(title: str, rules: FusionRules) -> None:
    """Print which operators are fused, and which cost nothing."""
    rows = [(first, ", ".join(sorted(seconds))) for first, seconds in sorted(rules.pairs.items())]
    print_table(f"{title} runs in one kernel", ("an operator", "with one of these behind it"), rows)
    print(f"patterns in one kernel: {', '.join(rules.patterns) or 'none'}")
    print(f"without cost: {', '.join(sorted(rules.free)) or 'none'}")
