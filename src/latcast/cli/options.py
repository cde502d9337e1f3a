"""Options and arguments that several commands have: one name and one meaning each."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import update_wrapper
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from latcast.errors import LatcastError, UnknownNameError
from latcast.predictors.conditions import PROGRAMS, Conditions, parse_scenarios
from latcast.records import PRECISIONS, Unit
from latcast.registry import Registry

if TYPE_CHECKING:
    from latcast.graph.ir import Values
    from latcast.measure.settings import WorkerSettings
    from latcast.networks import ModelKeywords
    from latcast.platforms import NamedPlatforms

LLAMA_CPP = "llama.cpp"
"""The runtime of language models."""

RUNTIMES = "latcast.runtimes:RUNTIMES"

Value = TypeVar("Value", bound="str | None")


def one_of(*names: str) -> Callable[[Value], Value]:
    """Return a check that an option's value is one of some names.

    ``module:NAME`` stands for the names in that registry, list or mapping, which is imported only when a value is parsed.
    """

    def known() -> Iterator[str]:
        for name in names:
            module, colon, attribute = name.partition(":")
            table = getattr(import_module(module), attribute) if colon else [name]
            yield from table.names() if isinstance(table, Registry) else table

    def check(value: Value) -> Value:
        if value is not None and value not in known():
            raise typer.BadParameter(f"'{value}' is not one of: {', '.join(filter(None, known()))}")
        return value

    return check


def _gpu_family(value: str) -> str:
    """Says it to all that is asked later, here and in workers."""
    from latcast.kernels.selection import FAMILY_VARIABLE, family_named

    if value:
        try:
            family_named(value)
        except UnknownNameError as problem:
            raise typer.BadParameter(str(problem)) from None
        os.environ[FAMILY_VARIABLE] = value
    return value


def _model(value: str | None) -> str | None:
    from latcast.predictors.kernel_predictor import ANALYTICAL_GP, kernel_models

    return one_of(*kernel_models(), ANALYTICAL_GP)(value)


def complete_platforms(incomplete: str) -> list[str]:
    """Ids of platforms for the shell to complete, after the last comma."""
    from latcast.predictors.bundle_index import platform_ids

    before, comma, _ = incomplete.rpartition(",")
    return [before + comma + name for name in platform_ids()]


def complete_models(incomplete: str) -> list[str]:
    """Names of published networks for the shell to complete."""
    from latcast.spaces.catalogue import models

    return [network.name for network in models() if network.name.startswith(incomplete)]


def cpu_list(text: str) -> str:
    """Check the text of an option that is a list of CPU numbers."""
    if text and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter(f"'{text}' is not a list of CPU numbers such as 2,3")
    return text


Model = Annotated[
    str,
    Argument(
        metavar="MODEL",
        help="A model file (.onnx, .tflite, .pt2, .param) or a name that latcast models lists.",
        autocompletion=complete_models,
    ),
]
Models = Annotated[
    list[str],
    Argument(
        metavar="MODEL...",
        help="Model files (.onnx, .tflite, .pt2, .param), folders of them, or names that latcast models lists.",
        autocompletion=complete_models,
    ),
]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, Option("--verbose", help="Also say which kernels are unlike those learned from.")]
Strict = Annotated[bool, Option("--strict", help="An unknown operator is an error.")]
Signature = Annotated[
    str, Option("--signature", metavar="NAME", help="Which signature of a TFLite file; its main network by default.")
]
Shape = Annotated[
    list[str] | None,
    Option("--shape", metavar="[NAME=]SIZES", help="Sizes of the input, 1,3,224,224, or of a named one, input=1,3,224,224."),
]
InputValue = Annotated[
    list[str] | None,
    Option(
        "--value",
        metavar="NAME=VALUE",
        help="Value of an input that decides a branch, rounds of a loop or sizes: rate=16000, sizes=64,64 or sizes=FILE.npy.",
    ),
]
Runtime = Annotated[str, Option("--runtime", "-r", help="Inference framework: see latcast doctor.", callback=one_of(RUNTIMES))]
RuntimeOrLlama = Annotated[
    str,
    Option(
        "--runtime",
        "-r",
        help="Inference framework: see latcast doctor; llama.cpp for language models.",
        callback=one_of(RUNTIMES, LLAMA_CPP),
    ),
]
PromptTokens = Annotated[int, Option("--prompt", help="Of a language model: tokens of the prompt.", min=1, metavar="TOKENS")]
GeneratedTokens = Annotated[int, Option("--generate", help="Of a language model: tokens of the answer.", min=1, metavar="TOKENS")]
MinDecode = Annotated[
    float | None, Option("--min-decode", help="Of a language model: tokens a second that it must answer.", min=1e-6)
]
MaxFirstToken = Annotated[
    str, Option("--max-ttft", help="Of a language model: time until its first token, such as 2s or 800ms.", metavar="TIME")
]
MaxMemoryMb = Annotated[
    float | None, Option("--max-memory-mb", help="Megabytes that weights and activations may take.", min=1e-6)
]
MaxMemory = Annotated[
    str, Option("--max-memory", help="Of a language model: memory that it may take, such as 3GB.", metavar="SIZE")
]
Quantisation = Annotated[
    str, Option("--quant", help="Of a language model: how its weights are quantised, such as q4_k_m.", metavar="NAME")
]
Threads = Annotated[int, Option("--threads", "-t", help="Threads of one inference.", min=1)]
ComputeUnit = Annotated[
    str,
    Option(
        "--unit",
        help="What computes: gpu, npu, or a set of cores such as 2large, with as many threads. GPUs and NPUs under onnxruntime, "
        "mnn and openvino were not tried on real hardware. [default: a CPU's --threads]",
        metavar="UNIT",
        show_default=False,
    ),
]
Precision = Annotated[str, Option("--precision", "-p", help=f"One of {', '.join(PRECISIONS)}.", callback=one_of(*PRECISIONS))]
Cpus = Annotated[str, Option("--cpus", help="CPUs to pin to, such as 2,3; the last ones by default.", callback=cpu_list)]
Realtime = Annotated[
    bool | None,
    Option(
        "--realtime/--no-realtime",
        help="Run at a real-time priority, which keeps other processes out of the runs. [default: where it is permitted]",
    ),
]
Scheduler = Annotated[
    str,
    Option("--scheduler", help="Dask scheduler whose workers do the work: see latcast worker.", metavar="ADDRESS"),
]
LibraryPath = Annotated[
    Path | None,
    Option(
        "--library-path",
        help="Folder with another version of the runtime's library, as pip install --no-deps --target FOLDER puts it there.",
        metavar="FOLDER",
    ),
]
Start = Annotated[bool, Option("--start", help="Loading and the first inference too.")]
Sustain = Annotated[
    str,
    Option("--sustain", metavar="MINUTES", help="The latency after running for this long, such as 30m.", show_default=False),
]
Fps = Annotated[float | None, Option("--fps", help="With --sustain: inferences a second. [default: without a pause]", min=1e-3)]
Beside = Annotated[
    str,
    Option(
        "--beside",
        metavar="PROGRAM,...",
        help=f"The latency beside other programs: {', '.join(PROGRAMS)}; all is each of them, + joins several.",
        show_default=False,
    ),
]
On = Annotated[
    str,
    Option(
        "--on",
        metavar="PLATFORM,...",
        help='Devices or chips by name, with a unit, runtime or precision ("Pixel 6", "RK3588 NPU"), ids of platforms or '
        "beginnings of them, patterns in quotes, or bundles, with commas between.",
        autocompletion=complete_platforms,
    ),
]
Trust = Annotated[bool, Option("--trust", help="Open a .pt2 file, which runs the code in it: only if you know who made it.")]
DeviceName = Annotated[str, Option("--device", help="What this machine is called in platform ids.", metavar="NAME")]
Device = Annotated[
    str,
    Option(
        "--device",
        help="Where to measure: ssh://user@host, adb:SERIAL or dask:tcp://HOST:8786/NAME; NAME= before it says what platform ids "
        "call it, and a name alone what they call this machine.",
        metavar="[NAME=]ADDRESS",
    ),
]
Seed = Annotated[int, Option("--seed", help="Of every random choice.", min=0)]
Budget = Annotated[float, Option("--budget", help="Minutes to spend.", min=0.05, metavar="MINUTES")]
LearnFrom = Annotated[
    str | None,
    Option(
        "--learn-from",
        help="Operators profiled inside networks, kernels timed alone or whole networks. "
        "[default: operators; profile takes kernels where there is no profiler]",
        metavar="operators|kernels|networks",
        callback=one_of("latcast.training.fitting:LEARN_FROM"),
        show_default=False,
    ),
]
KernelModel = Annotated[
    str | None,
    Option(
        "--model",
        help="How a kernel type is modelled: analytical_gbdt, analytical or a plug-in's regressor; whole networks teach "
        "analytical_gp alone. [default: analytical_gbdt, of whole networks analytical_gp]",
        callback=_model,
    ),
]
Rules = Annotated[
    str | None,
    Option(
        "--rules",
        help="Fusion rules that divide networks into kernels: shipped, detected (what latcast device fusion detect found "
        "here), or a file. [default: shipped]",
        metavar="shipped|detected|FILE",
    ),
]
GpuFamilyName = Annotated[
    str,
    Option(
        "--gpu-family",
        help="The GPU of a device that latcast does not know: adreno-6xx, mali-valhall, powervr, apple, amd, or as a driver of "
        "OpenGL, Vulkan or OpenCL calls it.",
        metavar="NAME",
        callback=_gpu_family,
    ),
]
Sampler = Annotated[
    str | None,
    Option(
        "--sampler",
        "-s",
        help="What chooses configurations of kernels: random, prior or adaptive.",
        callback=one_of("latcast.samplers:SAMPLERS"),
    ),
]
StoreFile = Annotated[
    Path | None,
    Option("--store", help="SQLite file to keep measurements in. [default: the user's folder]", metavar="FILE"),
]
BundleOutput = Annotated[
    Path | None,
    Option("--output", "-o", help="The bundle: a folder or a .zip. [default: the user's folder]"),
]
Replace = Annotated[bool, Option("--replace", help="Replace the user's own bundle even where that is the better.")]


def cpu_numbers(cpus: str) -> tuple[int, ...] | None:
    """CPUs to pin to, as the option asks for them."""
    return tuple(int(part) for part in cpus.split(",")) if cpus else None


def worker_settings(
    runtime: str,
    threads: int = 1,
    precision: str = "fp32",
    cpus: str = "",
    realtime: bool | None = None,
    device: str = "local",
    scheduler: str = "",
    library_path: Path | None = None,
    unit: str = "",
    *,
    trust: bool = False,
) -> WorkerSettings:
    """Return the settings of the platform that the options ask for. The workers of a scheduler choose CPUs and priority.

    Raises:
        MeasurementError: The device's address is malformed.
        RuntimeFailure: The runtime cannot run on this machine, which is the one to measure.
    """
    from latcast.measure.settings import WorkerSettings
    from latcast.measure.wires import DASK, device_and_address, runs_here
    from latcast.runtimes import check_runtime

    name, address = device_and_address(device)
    if scheduler:
        if address:
            raise typer.BadParameter(f"--scheduler goes with the name of a device, and '{device}' is an address")
        address = f"{DASK}:{scheduler}"
    if unit and Unit.parse(unit).kind == "cpu":
        threads = Unit.parse(unit).threads
    settings = WorkerSettings(
        runtime, threads, precision, name, cpus=cpu_numbers(cpus), realtime=realtime, address=address,
        library_path="" if library_path is None else str(library_path), trust=trust, unit=unit,
    )  # fmt: skip
    if runs_here(address) and library_path is None:
        check_runtime(runtime, address, settings.unit_kind)
    return settings


def names_in(text: str) -> list[str]:
    """Split a list of names at its commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def model_texts(models: Sequence[str]) -> list[str]:
    """See :func:`latcast.networks.models_listed`."""
    from latcast.networks import models_listed

    return [str(each) for each in models_listed(models)]


def platforms_in(on: str) -> NamedPlatforms:
    """Return the platforms that ``--on`` names, including unmeasured devices whose chip is known; what is taken for a name is
    printed once it is known which networks are to run there.

    Raises:
        LatcastError: None is named.
    """
    from latcast.cli.output import warn
    from latcast.platforms import NamedPlatforms

    return NamedPlatforms(tuple(platform_names(on)), warn)


def warn_of_units(on: str, platforms: Iterable[str]) -> None:
    """Say that limits hold for each of several units that ``--on`` means."""
    from latcast.cli.output import warn

    units = len({Unit.parse(each.split("/")[2]).kind for each in platforms})
    if len(names_in(on)) == 1 < units and "/" not in on:
        warn(f"limits hold for each of the {units} units that '{on}' means; name one, such as '{on} CPU', for its own")


def platform_names(on: str, listing: str = "latcast platforms") -> list[str]:
    """Return the names in ``--on``.

    Raises:
        LatcastError: There is none.
    """
    if names := names_in(on):
        return names
    raise LatcastError(f"--on '{on}' names no platform; {listing} lists them")


def parse_values(texts: Sequence[str] | None, option: str = "--value") -> Values:
    """See :func:`latcast.graph.input_values.parse_values`."""
    if not texts:
        return {}
    from latcast.graph.input_values import parse_values as parsed

    return parsed(texts, option)


def reading(
    shape: Sequence[str] | None, value: Sequence[str] | None, signature: str = "", *, strict: bool = False, trust: bool = False
) -> ModelKeywords:
    """Return how a model is read, as the options ask for it."""
    from latcast.networks import parse_shapes

    return {
        "shapes": parse_shapes(shape), "strict": strict, "trust": trust, "signature": signature, "values": parse_values(value),
    }  # fmt: skip


def with_conditions(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of conditions in the place of its parameter ``conditions``, which gets what they ask for."""

    def called(start: Start = False, sustain: Sustain = "", fps: Fps = None, beside: Beside = "", **given: Any) -> None:
        if fps is not None and not sustain:
            raise typer.BadParameter("--fps paces the inferences of --sustain; limits are --min-fps of check and --max-ms")
        minutes = parse_minutes(sustain) if sustain else None
        command(conditions=Conditions(start, minutes, fps, parse_scenarios(beside) if beside else ()), **given)

    *of_conditions, _given = inspect.signature(called, eval_str=True).parameters.values()
    own = inspect.signature(command, eval_str=True)
    listed = [of_conditions if name == "conditions" else [each] for name, each in own.parameters.items()]
    update_wrapper(called, command).__signature__ = own.replace(parameters=list(chain(*listed)))  # type: ignore[attr-defined]
    called.__annotations__ = {}
    return called


def quantity(text: str, option: str, units: Mapping[str, float], such: str, *, may_be_zero: bool = False) -> float:
    """Return the number in a text such as ``30m``, ``3GB`` or ``5%``, in the unit whose factor is 1.

    Args:
        text: What was given.
        option: What it was given to.
        units: Unit in small letters to its factor.
        such: Examples, for the message.
        may_be_zero: Whether 0 is allowed.

    Raises:
        BadParameter: It is no number with one of these units, or 0.
    """
    found = re.fullmatch(r"(\d*\.?\d+)\s*([a-z%]*)", text.strip().lower())
    if found is None or found[2] not in units or not (float(found[1]) or may_be_zero):
        raise typer.BadParameter(f"{option} '{text}', expected {such}")
    return float(found[1]) * units[found[2]]


def parse_minutes(text: str) -> float:
    """Return the minutes of ``--sustain``, a text such as ``30m``, ``90s`` or ``1h``; a number alone is of minutes."""
    return quantity(text, "--sustain", {"s": 1 / 60, "m": 1, "min": 1, "": 1, "h": 60}, "a time such as 30m, 90s or 1h")
