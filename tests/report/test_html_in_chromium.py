"""The report in a real Chromium, without a screen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latcast.report.html import report

pytestmark = pytest.mark.slow

CHROMIUM_VARIABLE = "LATCAST_CHROMIUM"
"""Another browser, or a script that starts it on a quiet core."""

PHONE, TABLET, DESK = {"width": 390, "height": 844}, {"width": 768, "height": 1024}, {"width": 1280, "height": 900}
PLATFORMS = ["pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/2large/fp32"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = os.environ.get(CHROMIUM_VARIABLE) or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here; add it with: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jinja2")
    return report("timm/efficientnet_b0", PLATFORMS, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Any]:
    pages = []

    def open_(viewport: dict[str, int], scheme: str = "light", *, scripts: bool = True) -> Any:
        context = browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.on("console", lambda said: problems.append(said.text))
        page.on("request", lambda asked: None if asked.url == file.as_uri() else problems.append(asked.url))
        page.goto(file.as_uri())
        pages.append((context, problems))
        return page

    yield open_
    for context, problems in pages:
        context.close()
        assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, TABLET, DESK], ids=["phone", "tablet", "desk"])
def test_a_report_fits_its_screen(opened: Any, viewport: dict[str, int], scheme: str) -> None:
    page = opened(viewport, scheme)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")

    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    cells = page.evaluate(
        "[...document.querySelectorAll('.icicle li')].map(cell => cell.getBoundingClientRect()).map(box => [box.left, box.right])"
    )
    assert len(cells) > 100
    assert min(left for left, _ in cells) >= 0
    assert max(right for _, right in cells) <= viewport["width"] + 0.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(opened: Any, scheme: str) -> None:
    page = opened(DESK, scheme)
    luminance = """(colour) => {
      const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    }"""
    pairs = page.evaluate(
        """() => ['.icicle .leaf.compute > .label', '.icicle .leaf.memory > .label', '.icicle .leaf.overhead > .label', 'body',
          '.warning', '.note', 'thead th'].map(name => {
          const found = document.querySelector(name); const own = getComputedStyle(found);
          const inner = name.includes('leaf') ? getComputedStyle(found.querySelector('span')) : own;
          const behind = own.backgroundColor === 'rgba(0, 0, 0, 0)' ? getComputedStyle(document.body) : own;
          return [name, inner.color, behind.backgroundColor]; })"""
    )
    for name, text, ground in pairs:
        high, low = sorted((page.evaluate(f"({luminance})('{text}')"), page.evaluate(f"({luminance})('{ground}')")), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_the_table_is_sorted_and_searched(opened: Any) -> None:
    page = opened(DESK)
    table = page.locator("table.sortable").first
    heads = table.locator("thead th")
    names = heads.all_inner_texts()
    place = names.index("ms")

    def column() -> list[float]:
        return [float(text) for text in table.locator(f"tbody tr:visible td:nth-child({place + 1})").all_inner_texts()]

    heads.nth(place).get_by_role("button").click()
    assert heads.nth(place).get_attribute("aria-sort") == "descending"
    assert column() == sorted(column(), reverse=True)
    heads.nth(place).get_by_role("button").press("Enter")
    assert heads.nth(place).get_attribute("aria-sort") == "ascending"
    assert column() == sorted(column())

    everything = len(column())
    page.get_by_label("Search").first.fill("blocks.1 depthwise")
    shown = table.locator("tbody tr:visible").all_inner_texts()
    assert 0 < len(shown) < everything
    assert all("blocks.1" in text and "depthwise" in text for text in shown)
    assert page.locator("output").first.inner_text() == f"{len(shown)} of {everything}"


def test_a_platform_is_opened_by_its_line(opened: Any) -> None:
    page = opened(PHONE)
    assert page.locator("details[open]").count() == 1

    page.locator("a.row").nth(1).click()

    page.wait_for_function("document.querySelectorAll('details[open]').length === 2")


def test_a_report_is_read_without_scripts(opened: Any) -> None:
    page = opened(PHONE, scripts=False)

    assert page.locator("table.sortable").first.locator("tbody tr").count() > 100
    assert page.locator("input").first.is_hidden()
    page.locator("summary").nth(1).click()
    assert page.locator("details[open]").count() == 2
