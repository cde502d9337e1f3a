"""``latcast platforms`` and ``latcast models``: what can be predicted for, and what by name."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.lazy_group import CommandGroup, command_group
from latcast.cli.output import milliseconds, percent, print_json, print_table, warn
from latcast.errors import LatcastError
from latcast.registry import matched, matching

if TYPE_CHECKING:
    from latcast.predictors.analytical import ClassThroughput
    from latcast.predictors.bundle_index import PlatformSummary
    from latcast.predictors.device_forecast import DeviceForecast
    from latcast.predictors.platform_predictor import PlatformPredictor


class PatternGroup(CommandGroup):
    """Take what is not a command as a pattern to list: ``latcast platforms 'pixel4/*'``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.list_commands(ctx), *ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = command_group(
    """What can be predicted for, and how well: latcast platforms [PATTERN], --find a device by its name, or show ID.

\b
Examples:
  latcast platforms
  latcast platforms 'pixel4/*/gpu/*'
  latcast platforms --find "redmi note 8"
  latcast platforms show local/onnxruntime
""",
    PatternGroup,
)

PATTERN_HELP = "Part of a name, a pattern in quotes, or a device."

COLUMNS = ("GFLOP/s", "GB/s", "weights GB/s", "µs a kernel")


@app.command(name="list")
def list_platforms(
    words: Annotated[list[str] | None, Argument(metavar="[PATTERN]", help=PATTERN_HELP)] = None,
    text: Annotated[
        str | None,
        Option(
            "--find",
            metavar="TEXT",
            help="A device, chip, core, GPU or NPU by its name: what it is, and platforms of it and of similar ones.",
        ),
    ] = None,
    llm: Annotated[bool, Option("--llm", help="List the platforms of language models.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the platforms that can be predicted for, and how well: figures are of networks that training did not see.

    Without a pattern, one's own platforms and a line for each device that is known.

    \b
    Examples:
      latcast platforms tflite
      latcast platforms 'pixel4/*/gpu/*'
      latcast platforms --find "redmi note 8"
      latcast platforms --find cortex-a76
      latcast platforms --llm
    """
    pattern = " ".join(words or ())  # a device's name needs no quotes
    if llm:
        from latcast.cli import language_models

        if text is not None:
            raise LatcastError("both --llm and --find were given; give one of them")
        language_models.print_platforms(pattern, as_json=as_json)
        return
    if text is not None:
        from latcast.cli.platforms_find import print_found

        if pattern:
            raise LatcastError(f"both a pattern, '{pattern}', and --find '{text}' were given; give one of them")
        print_found(text, as_json)
        return
    from latcast.folders import bundles_folder
    from latcast.platforms import platforms_named
    from latcast.predictors.bundle_index import SHIPPED, platforms, scan_bundles

    found = platforms()
    for problem in scan_bundles().problems:
        warn(problem)
    if pattern and found:
        chosen, alike = matching(pattern, [each.id for each in found]), False
        if not chosen:
            chosen, alike = platforms_named(pattern)
        if alike:
            warn(f"nothing was measured on '{pattern}' itself; these are of other devices with its silicon")
        found = [each for each in found if each.id in chosen]
    if as_json:
        print_json([each.to_json() for each in found])
        return
    if not found:
        warn(f"no predictors yet in {bundles_folder()}; make one of this machine with: latcast demo, or latcast profile")
        return
    listed = [each for each in found if pattern or each.source != SHIPPED]
    if listed:
        _print_platforms(listed)
    if len(listed) < len(found):
        _print_devices([each for each in found if each.source == SHIPPED])


def _print_platforms(found: list[PlatformSummary]) -> None:
    print_table(
        "",
        ("platform", "MAPE %", "±5 %", "±10 %", "in interval %", "trained on", "source"),
        [
            (
                each.id,
                *map(percent, (each.mape, each.within_5, each.within_10, each.interval_coverage)),
                _shortened(each.trained_on),
                each.source,
            )
            for each in found
        ],
        spare=("source", "±5 %", "in interval %", "trained on", "±10 %"),
    )


def _print_devices(found: list[PlatformSummary]) -> None:
    """Print a row for each device: its platforms, and the held-out error of the best known of each kind of unit."""
    from latcast.predictors.bundle_index import cards_of
    from latcast.predictors.platform_names import Named, best_known
    from latcast.records import UNIT_KINDS, Unit

    by_device: dict[str, list[PlatformSummary]] = {}
    for each in found:
        by_device.setdefault(each.device, []).append(each)
    cards = cards_of([each.id for each in found])
    rows = []
    for device, platforms in by_device.items():
        best = best_known(Named(device, (), tuple(each.id for each in platforms), ()), cards)
        errors = {Unit.parse(each.unit).kind: each.mape for each in platforms if each.id in best}
        rows.append((device, str(len(platforms)), *(percent(errors[kind]) if kind in errors else "" for kind in UNIT_KINDS)))
    print_table("", ("device", "platforms", *(f"{kind.upper()} MAPE %" for kind in UNIT_KINDS)), rows)
    print("\nMAPE is of the best known platform of a unit. Of a device: latcast platforms pixel 4; all: latcast platforms '*'")


def _shortened(text: str | None) -> str:
    """``"20 networks"`` of ``"20 networks (2 resnet, ...); 1870 kernels ..."``; the card has the whole text."""
    return re.split(r" \(|;| measured there|, and ", text)[0] if text else "not stated"


@app.command()
def show(
    names: Annotated[
        list[str],
        Argument(metavar="ID...", help="One platform, or two to compare.", autocompletion=options.complete_platforms),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Show the card of a platform, and what the device does well; two platforms side by side.

    \b
    Examples:
      latcast platforms show local/onnxruntime
      latcast platforms show pixel4/tflite-2.10/gpu/fp16 s10/tflite-2.10/2large/fp32
    """
    from latcast.platforms import load

    if len(names) > 2:
        raise LatcastError(f"{len(names)} platforms were given; one is shown, two are compared")
    predictors = [load(name) for name in names]
    if as_json:
        print_json({"platforms": [_described(predictor) for predictor in predictors]})
    elif len(predictors) == 1:
        _print_one(predictors[0])
    else:
        _print_compared(*predictors)


def _described(predictor: PlatformPredictor) -> dict[str, Any]:
    return {
        "id": predictor.platform.id,
        "card": dict(predictor.card),
        "overhead_ms": predictor.network.constant_ms,
        "overhead_us_per_kernel": 1e3 * predictor.network.per_kernel_ms,
        "shortest_network": (
            {"sum_ms": predictor.network.short_networks.shortest_ms, "factor": predictor.network.short_networks.least_factor}
            if predictor.network.short_networks.exponents
            else None
        ),
        "interval": predictor.interval.to_json(),
        **({} if predictor.device is None else {"coefficients": coefficients_of(predictor.device)}),
        "throughputs": [each.to_json() for each in predictor.throughputs],
    }


def coefficients_of(device: DeviceForecast) -> list[dict[str, Any]]:
    """Return what a device takes for each term, in milliseconds, and its uncertainty as a factor (one standard deviation)."""
    import numpy as np

    from latcast.predictors.network_features import TERM_NAMES, TERM_UNITS

    unit_ms = TERM_UNITS * np.exp(device.coefficients)
    return [
        {"term": name, "ms_per_unit": float(value), "factor_68": float(np.exp(deviation))}
        for name, value, deviation in zip(TERM_NAMES, unit_ms, device.coefficient_deviation, strict=True)
    ]


def _rates(found: ClassThroughput | None) -> tuple[str, ...]:
    if found is None:
        return ("-",) * len(COLUMNS)
    return tuple("-" if value is None else f"{value:#.3g}".rstrip(".") for value in (*found.rates, found.kernel_us))


def _compute_ratio(first: ClassThroughput | None, second: ClassThroughput | None) -> str:
    """Return the second platform's speed as a multiple of the first's; empty where neither is limited by computing."""
    rates = [None if each is None else each.gflop_per_s for each in (first, second)]
    return f"{rates[1] / rates[0]:.2f}" if rates[0] and rates[1] else "-"


def _text(value: object) -> str:
    if value is None:
        return "not stated"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_one(predictor: PlatformPredictor) -> None:
    from latcast.predictors.card import FIELDS, FIGURES, card_warnings

    card = predictor.card
    for text in card_warnings(card):
        warn(text)
    print_table(predictor.platform.id, ("", ""), [(title, _text(card.get(key))) for key, title in FIELDS.items()])
    title = f"\nOn {_text(card.get('networks'))} networks not trained on (held out by {_text(card.get('held_out_by'))})"
    print_table(title, ("figure", ""), [(text, _text(card.get(key))) for key, text in FIGURES.items()])
    print_table(
        "\nWhat the device does well", ("kernel class", *COLUMNS),
        [(each.kernel_class, *_rates(each)) for each in predictor.throughputs],
    )  # fmt: skip
    if predictor.device is not None:
        _print_known(predictor, predictor.device)
    interval = predictor.interval
    print(
        f"\nOverhead: {milliseconds(predictor.network.constant_ms)} ms a network and "
        f"{1e3 * predictor.network.per_kernel_ms:.2f} µs a kernel, beyond what kernels take by themselves\n"
        f"{_short_networks(predictor)}"
        f"{interval.kind.capitalize()} interval: {interval.in_words()}"
    )


MEASURED_FACTOR = 1.25
"""A coefficient that is uncertain by no more counts as measured."""


def _print_known(predictor: PlatformPredictor, device: DeviceForecast) -> None:
    """Print what was measured there, and what is inferred from other platforms."""
    from latcast.predictors.card import TRAINING_LINEAGES

    found = coefficients_of(device)
    told = [each["term"] for each in found if each["factor_68"] <= MEASURED_FACTOR]
    inferred = [f"{each['term']} (x/÷ {each['factor_68']:.2f})" for each in found if each["factor_68"] > MEASURED_FACTOR]
    lineages = predictor.card.get(TRAINING_LINEAGES) or ()
    rows = [
        (
            "measured there",
            f"{predictor.card.get('measurements') or 0} networks of {len(lineages)} lineages: {', '.join(lineages)}",
        ),
        ("so its prices of these are known", ", ".join(told) or "none"),
        ("inferred from other platforms, uncertain by", ", ".join(inferred) or "none"),
    ]
    for key, title in _CASES.items():
        figures = predictor.card.get(key)
        if figures and figures.get("mape") is not None:
            rows.append((title, f"MAPE {figures['mape']:.1f} % on {figures.get('networks') or 'some'}"))
    coverage = predictor.card.get("interval_coverage_of_kind")
    if coverage:
        rows.append(
            (
                "inside the 90 % interval, on all platforms of its kind",
                f"{min(coverage.values()):.0f} to {max(coverage.values()):.0f} %",
            )
        )
    print_table("\nWhat was measured there, and what is inferred", ("", ""), rows)


_CASES = {
    "same_lineages": "networks not run there, of lineages that may have run there",
    "networks_of_others": "networks that others ran",
}
"""Figures of a card on other networks held out than those of unseen lineages."""


def _short_networks(predictor: PlatformPredictor) -> str:
    """Return a line on what short networks gain from warm caches; empty where that was not learned."""
    correction, coldness = predictor.network.short_networks, predictor.network.coldness
    if coldness is not None:
        return (
            f"Short networks: their kernels are faster in warm caches, half of it at {milliseconds(coldness.half_cold_ms)} ms\n"
        )
    if not correction.exponents:
        return ""
    return (
        f"Short networks: {correction.least_factor:.2f} times what their kernels add up to at "
        f"{milliseconds(correction.shortest_ms)} ms, 1 from {milliseconds(max(correction.knots_ms))} ms on\n"
    )


def _least_factor(predictor: PlatformPredictor) -> str:
    return "by kernel" if predictor.network.coldness is not None else f"{predictor.network.short_networks.least_factor:.2f}"


def _print_compared(first: PlatformPredictor, second: PlatformPredictor) -> None:
    from latcast.predictors.analytical import compared
    from latcast.predictors.card import FIGURES

    both = (first, second)
    print(f"A: {first.platform.id}\nB: {second.platform.id}\n")
    rows = [(text, *(_text(each.card.get(key)) for each in both)) for key, text in FIGURES.items()]
    rows += [
        ("overhead of a network, ms", *(milliseconds(each.network.constant_ms) for each in both)),
        ("overhead of a kernel, µs", *(f"{1e3 * each.network.per_kernel_ms:.2f}" for each in both)),
        ("factor of the shortest networks", *map(_least_factor, both)),
        ("interval, times", *(f"{each.interval.low:.3f} to {each.interval.high:.3f} ({each.interval.kind})" for each in both)),
    ]
    print_table("", ("", "A", "B"), rows)
    pairs = compared(first.throughputs, second.throughputs)
    print_table(
        "\nWhat the devices do well",
        ("kernel class", *(f"{title} {which}" for title in COLUMNS for which in "AB"), "GFLOP/s B : A"),
        [
            (
                next(each.kernel_class for each in pair if each is not None),
                *(text for texts in zip(*map(_rates, pair), strict=True) for text in texts),
                _compute_ratio(*pair),
            )
            for pair in pairs
        ],
    )


def models(
    pattern: Annotated[str, Argument(metavar="[PATTERN]", help=PATTERN_HELP)] = "",
    llm: Annotated[bool, Option("--llm", help="List the language models that can be named.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the published networks that can be named in place of a file; any other network is a file.

    \b
    Examples:
      latcast models mobilenet
      latcast models 'resnet*'
      latcast models --llm qwen
    """
    from latcast.llm.reading import named_models
    from latcast.spaces import catalogue

    networks = {network.name: network for network in catalogue.models()}
    if llm or (not matching(pattern, networks) and matching(pattern.lower(), named_models())):
        from latcast.cli import language_models

        language_models.print_models(pattern, as_json=as_json)
        return
    found = [networks[name] for name in matched(pattern, networks, "published network", "latcast models")]
    if as_json:
        print_json([asdict(network) for network in found])
        return
    print_table(
        "",
        ("model", "family", "million parameters", "million MACs", "top-1, %"),
        [
            (
                network.name,
                network.family,
                f"{network.million_parameters:.2f}",
                percent(network.million_macs, 0),
                percent(network.top1_percent, 1),
            )
            for network in found
        ],
    )
