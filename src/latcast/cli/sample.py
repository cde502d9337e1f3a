"""``latcast sample``."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from latcast.cli.options import AsJson, Precision, Runtime, Seed, one_of
from latcast.cli.output import print_json, print_table, warn


def _samplers() -> list[str]:
    from latcast.samplers import SAMPLERS

    return SAMPLERS.names()


def command(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="Kernel type: conv, depthwise_conv, linear, concat...")],
    count: Annotated[int, typer.Option("--count", "-n", help="How many configurations.", min=1)] = 20,
    sampler: Annotated[
        str, typer.Option("--sampler", "-s", help="random, prior, adaptive or vae.", callback=one_of(_samplers))
    ] = "prior",
    seed: Seed = 0,
    runtime: Runtime = "onnxruntime",
    precision: Precision = "fp32",
    test_set: Annotated[
        bool, typer.Option("--test-set", help="The fixed test set that rounds of sampling are judged on, instead of samples.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a column a field.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw configurations of a kernel type, as a campaign of isolated kernels would measure them.

    What is one kernel follows from the fusion rules of the runtime.
    """
    from latcast.kernels.rules import rules_for
    from latcast.kernels.types import kernel_type
    from latcast.samplers import SAMPLERS
    from latcast.samplers.test_set import fixed_test_set
    from latcast.spaces.kernel_space import KernelSpace
    from latcast.spaces.kernel_zoo import kernel_zoo

    rules = rules_for(runtime, precision)
    space = KernelSpace(kernel, rules)
    space.check_drawable()
    # Even sampling needs no networks to learn from.
    listed = {} if sampler == "random" and not test_set else kernel_zoo(rules, seed=seed).get(kernel, {})
    if sampler == "vae" and not test_set:
        warn("the autoencoder is trained on the kernels of networks, once for each type; that takes up to a minute")
    found = fixed_test_set(space, listed, count, seed) if test_set else SAMPLERS.get(sampler)(space, listed, seed).suggest(count)
    if len(found) < count:
        warn(f"kernels of type '{kernel}' have hardly more than {len(found)} different configurations")
    fields = kernel_type(kernel).fields
    if as_json:
        print_json(
            {
                "kernel": kernel,
                "sampler": "test set" if test_set else sampler,
                "seed": seed,
                "runtime": runtime,
                "configurations": [dict(zip(fields, row, strict=True)) for row in found],
            }
        )
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows(found)
    else:
        print_table("", fields, [[str(value) for value in row] for row in found])
