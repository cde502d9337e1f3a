"""The report as one HTML file."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from latcast.errors import LatcastError
from latcast.graph.builder import GraphBuilder
from latcast.kernels.memory import Memory
from latcast.predictors.conditions import Conditions
from latcast.predictors.prediction import Coverage, Grade, KernelLatency, Prediction
from latcast.report.explain import Explanation, Hint, explain
from latcast.report.html import connections, icicle, rendered, report
from latcast.spaces.catalogue import build, model

pytest.importorskip("jinja2")

PHONE, OTHER = "pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/2large/fp32"


MEMORY = Memory(3_000_000, 3_000_000, 12_300_000, 12_400_000, "alive")


def kernel(module: str, latency_ms: float, limit: str = "compute", kernel_type: str = "conv") -> KernelLatency:
    return KernelLatency(f"of {module}", kernel_type, ("Conv",), {}, latency_ms, True, module, limit, (f"of {module}",))


def prediction(*kernels: KernelLatency, overhead_ms: float = 0.0, name: str = "net") -> Prediction:
    latency_ms = sum(each.latency_ms for each in kernels) + overhead_ms
    return Prediction(
        name, PHONE, latency_ms, 0.9 * latency_ms, 1.2 * latency_ms, Coverage(1.0, ()), Grade.of(5.0, ""), (), kernels,
        overhead_ms, 90.0,
    )  # fmt: skip


class Page(HTMLParser):
    """Tags in their order, and whether every one that is opened is closed."""

    VOID = frozenset({"meta", "input", "br", "path", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_icicle_adds_up_modules_and_joins_those_of_one_part() -> None:
    root = icicle(
        prediction(
            kernel("stem", 1.0), kernel("layer1.0.conv1", 2.0), kernel("layer1.0.conv2", 3.0, "memory"), kernel("head.fc", 1.0),
            overhead_ms=3.0,
        )
    )  # fmt: skip

    assert (root.name, root.latency_ms, root.percent) == ("net", 10.0, 100.0)
    assert [(each.name, each.latency_ms, each.limit) for each in root.cells] == [
        ("stem", 1.0, "compute"), ("layer1.0", 5.0, "memory"), ("head", 1.0, "compute"), ("overhead", 3.0, "overhead"),
    ]  # fmt: skip
    assert [(each.name, each.percent) for each in root.cells[1].cells] == [("conv1", 20.0), ("conv2", 30.0)]


def test_small_neighbours_are_one_cell_and_nothing_is_lost() -> None:
    kernels = [kernel("a", 10.0), *(kernel(f"tiny{index}", 0.01) for index in range(5)), kernel("b", 5.0)]

    root = icicle(prediction(*kernels))

    assert [each.name for each in root.cells] == ["a", "5 small", "b"]
    assert sum(each.latency_ms for each in root.cells) == pytest.approx(15.05)


def test_connections_are_between_kernels() -> None:
    b = GraphBuilder("residual")
    x = b.conv(b.input((1, 8, 8, 8)), 8, 3)
    graph = b.finish(b.relu(b.add(b.conv(x, 8, 3), x)))
    names = ("conv_0", "conv_1", "add_0", "relu_0")
    kernels = [
        replace(kernel("", 1.0), name=names[place], nodes=nodes) for place, nodes in enumerate([names[:1], names[1:2], names[2:]])
    ]

    assert connections(Explanation(prediction(*kernels), (), 0, graph, MEMORY)) == [(0, 1), (0, 2), (1, 2)]


def test_a_report_is_one_well_formed_file_that_fetches_nothing(tmp_path: Path) -> None:
    path = report("timm/resnet18", [PHONE, OTHER], tmp_path / "report.html")

    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    fetching = {"src", "srcset", "data", "action", "poster", "background", "xlink:href"}
    assert not any(fetching & set(attributes) for _, attributes in page.tags)
    assert {tag for tag, _ in page.tags}.isdisjoint({"link", "img", "iframe", "object", "base", "form"})
    links = [attributes["href"] for tag, attributes in page.tags if "href" in attributes]
    assert links == ["#platform-1", "#platform-2"]
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    [policy] = [attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_a_report_shows_platforms_hints_and_kernels() -> None:
    found = explain("mobilenet_v3_large", on=[PHONE, OTHER])

    text = rendered(found)

    for each in found:
        assert each.prediction.platform in text
        for hint in each.hints:
            assert hint.text.replace("->", "→") in text
    assert text.count("<tr><td>") == sum(len(each.prediction.kernels) for each in found)
    assert text.count("(90 %)") == 4  # of each platform in the summary and at its own place


def test_a_report_shows_latencies_under_the_conditions_asked_for(tmp_path: Path) -> None:
    file = report("squeezenet1_1", PHONE, tmp_path / "report.html", conditions=Conditions(minutes=30, beside=("memory",)))

    text = file.read_text(encoding="utf-8")
    assert re.search(r"after 30 min: [0-9.]+ \([0-9.]+ to [0-9.]+\)", text)
    assert "beside memory: not known" in text
    assert "beside others: no network was measured beside such programs" in text


def test_the_fastest_platform_is_first_and_the_axis_has_numbers() -> None:
    found = [Explanation(replace(prediction(kernel("", ms)), platform=f"p{ms:g}"), (), 0, build(model("resnet18")), MEMORY)
             for ms in (30.0, 2.0, 7.0)]  # fmt: skip

    text = rendered(found)

    assert re.findall(r"<summary><h2>(p\d+)", text) == ["p2", "p7", "p30"]
    ticks = text.partition('class="ticks"')[2].partition("</div>")[0]
    assert re.findall(r">([^<]+)</span>", ticks) == ["2 ms", "3", "5", "7", "10", "15", "20", "30"]


def test_names_in_a_report_are_escaped() -> None:
    evil = "<script>alert('x')</script>&\"'"
    found = replace(prediction(kernel(evil, 1.0, kernel_type=evil), name=evil), platform=evil, warnings=(evil,))
    hint = Hint("activation", evil, 0.5, -0.5, -50.0, -0.6, -0.4)

    text = rendered([Explanation(found, (hint,), 1, build(model("resnet18")), MEMORY)])

    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "activations take at least 3.00 MB at peak, weights 12.3 MB" in text
    assert text.count("<script") == 1
    assert not re.search(r"=\s*\"[^\"]*<", text.partition("</style>")[2].partition("<script")[0])


def test_an_empty_report_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LatcastError, match="nothing to report on"):
        rendered([])
    with pytest.raises(LatcastError, match=r"cannot write .*nowhere"):
        report("resnet18", PHONE, tmp_path / "nowhere" / "report.html")


def test_a_network_of_views_has_a_report() -> None:
    b = GraphBuilder("view")

    assert "view" in rendered([explain(b.finish(b.reshape(b.input((1, 3, 8, 8)), (1, 192))), on=PHONE)])
