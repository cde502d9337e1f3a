"""``latcast workgroups export``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import StageProgress, kept_when_interrupted, print_json, print_table, warn
from latcast.errors import LatcastError
from latcast.reading import require_regular

if TYPE_CHECKING:
    from latcast.networks import ModelKeywords
    from latcast.workgroups.program_cache import ProgramCache

BY = ("rules", "kfast", "8x4x1", "tuning")


@kept_when_interrupted("what was timed is kept: the same command goes on with it")
def export(
    what: Annotated[
        str,
        Argument(
            metavar="MODEL|CACHE",
            help="A model file or the name of a published network, which LiteRT makes ready for the GPU here; or a program cache "
            "that LiteRT wrote, KEY_mldrift_program_cache.bin, from here or from another device.",
        ),
    ],
    output: Annotated[Path, Option("--output", "-o", help="Folder for the program cache, and for the model where it is made.")],
    by: Annotated[
        str,
        Option(
            "--by",
            metavar="|".join(BY),
            help="The rules' first size, TFLite's formula, one size for all, or the fastest of those timed here.",
            callback=options.one_of(*BY),
        ),
    ] = "tuning",
    on: Annotated[
        str,
        Option("--on", metavar="DEVICE", help="Device profile whose limits hold for a CACHE. [default: LiteRT's GPU here]"),
    ] = "litert",
    max_sizes: Annotated[int, Option("--max-sizes", help="Sizes that tuning tries of each kernel, at most.", min=2)] = 24,
    rounds: Annotated[int, Option("--rounds", help="Launches of each size when tuning.", min=2)] = 8,
    budget: Annotated[
        float, Option("--budget", metavar="MINUTES", help="Minutes for tuning each kernel; two rounds are always run.", min=0.0)
    ] = 0.5,
    shape: options.Shape = None,
    value: options.InputValue = None,
    as_json: options.AsJson = False,
) -> None:
    """Write work-group sizes into the program cache from which LiteRT's GPU delegate starts.

    \b
    LiteRT takes the cache with these options of its GPU accelerator:
      serialization_dir = FOLDER, model_cache_key = KEY, serialize_program_cache = true
    Examples:
      latcast workgroups export mobilenet_v1 -o out/
      latcast workgroups export app_mldrift_program_cache.bin -o out/ --by rules --on mi9
    """
    from latcast.folders import made
    from latcast.workgroups.devices import load_profile
    from latcast.workgroups.exporting import chosen_sizes, tune_sizes
    from latcast.workgroups.gpu_interfaces import find_device, is_queried
    from latcast.workgroups.measuring import SweepPlan
    from latcast.workgroups.program_cache import SUFFIX

    made(output)
    cache, name = _read_or_make_cache(what, output, options.reading(shape, value))
    left: Mapping[str, str] = {}
    if by == "tuning":
        interface, index, profile = find_device("litert")
        with StageProgress() as progress:
            tuned = tune_sizes(
                cache, profile, lambda workload: interface.session(index, workload), output / "sweeps", sizes=max_sizes,
                plan=SweepPlan(rounds, 60 * budget), watch=progress.show,
            )  # fmt: skip
        sizes, left = tuned.sizes, tuned.left
    else:
        profile = find_device(on)[2] if is_queried(on) else load_profile(on)
        sizes = chosen_sizes(cache, profile, by)
    path = output / name
    path.write_bytes(cache.resized(sizes))
    key = name.removesuffix(SUFFIX)
    if as_json:
        kernels = [
            {"name": kernel.name, "grid": list(kernel.grid.shape), "own": list(kernel.size.shape),
             "size": list(sizes.get(number, kernel.size).shape)}
            for number, kernel in enumerate(cache.kernels)
        ]  # fmt: skip
        print_json({"cache": str(path), "model_cache_key": key, "device": cache.device, "kernels": kernels, "left": left})
        return
    counts = Counter(
        (kernel.name, str(kernel.grid), str(kernel.size), str(sizes.get(number, kernel.size)))
        for number, kernel in enumerate(cache.kernels)
        if kernel.kind is not None
    )
    rows = [[name, grid, str(count), own, size] for (name, grid, own, size), count in counts.items()]
    print_table(f"{len(cache.kernels)} kernels on {profile.title}", ("kernel", "grid", "times", "LiteRT's size", "size"), rows)
    for operator, why in left.items():
        warn(f"{operator} keeps LiteRT's own size: {why}")
    print(f'{path}: serialization_dir = "{output}", model_cache_key = "{key}"')


def _read_or_make_cache(what: str, output: Path, reading: ModelKeywords) -> tuple[ProgramCache, str]:
    """Return the program cache, and the name of its file."""
    from latcast.graph.writers.tflite import to_tflite
    from latcast.networks import ModelOptions, read_model
    from latcast.workgroups.litert_delegate import write_program_cache
    from latcast.workgroups.program_cache import SUFFIX, read_program_cache

    if what.endswith(SUFFIX):
        if Path(what).resolve().parent == output.resolve():
            raise LatcastError(f"{what} lies in {output} itself and would be overwritten; give another folder")
        return read_program_cache(Path(what)), Path(what).name
    if what.endswith(".tflite"):
        require_regular(Path(what), error=LatcastError)
        data, key = Path(what).read_bytes(), Path(what).stem
    else:
        graph = read_model(what, ModelOptions(**reading))
        data, key = to_tflite(graph), Path(what).stem
        (output / f"{key}.tflite").write_bytes(data)
    return write_program_cache(data, output, key), f"{key}{SUFFIX}"
