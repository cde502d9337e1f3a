"""Output of the stock tools with what logs put before each line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from latcast.errors import DatasetError
from latcast.runtimes.benchmark_tools.output import Line, Section, lines_of
from latcast.runtimes.benchmark_tools.tflite import TfliteReader

RECORDED = Path(__file__).parent / "recorded"
TFLITE = (RECORDED / "tflite_profile.txt").read_text()
NCNN = (RECORDED / "benchncnn.txt").read_text()

PREFIXES = {
    "brief": "I/tflite  ( 1234): ",
    "tag": "I/tflite  : ",
    "process": "I( 1234) ",
    "thread": "I( 1234: 1240) ",
    "time": "11-26 10:22:33.123 I/tflite  ( 1234): ",
    "time with a time zone": "11-26 10:22:33.123 +0100 D/tflite( 1234): ",
    "threadtime": "11-26 10:22:33.123  1234  1240 I tflite  : ",
    "threadtime with year, microseconds and user": "2024-11-26 10:22:33.123456 shell : 1234  1240 I tflite  : ",
    "threadtime since 1970": "1732616553.123  1234  1240 W native_benchmark: ",
    "threadtime since the start": "   1234.567  1234  1240 I tflite: ",
    "old Android Studio": "2024-11-26 10:22:33.123 1234-1240/org.tensorflow.lite.benchmark I/tflite: ",
    "Android Studio": "2024-11-26 10:22:33.123  1234-1240  tflite                  org.tensorflow.lite.benchmark        I  ",
    "GitHub Actions": "2024-11-26T10:22:33.1234567Z ",
    "gh run view --log": "build\tRun the benchmark\t2024-11-26T10:22:33.1234567Z ",
    "GitLab": "2024-11-26T10:22:33.123456Z 01O ",
    "logcat within GitHub Actions": "2024-11-26T10:22:33.1234567Z 11-26 10:22:33.123  1234  1240 I tflite  : ",
    "syslog": "Nov 26 10:22:33 board benchmark_model[1234]: ",
    "docker compose": "benchmark-1  | ",
    "glog": "I0000 00:00:1732616553.123456    1234 benchmark_tflite_model.cc:123] ",
}


def texts(text: str) -> list[str]:
    return [line.text for line in lines_of(text)]


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("printed", [TFLITE, NCNN], ids=["benchmark_model", "benchncnn"])
def test_a_prefix_is_left_out_of_every_line(prefix: str, printed: str) -> None:
    logged = "".join(f"{prefix}{line}\n" for line in printed.splitlines())
    assert texts(logged) == texts(printed)


@pytest.mark.parametrize(
    "altered",
    [
        lambda text: "".join(f"\x1b[38;5;40mI/tflite  ( 1234): {line}\x1b[0m\n" for line in text.splitlines()),
        lambda text: "--------- beginning of main\n" + "".join(f"I/tflite  ( 1234): {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"I( 1234) {line}  (tflite)\n" for line in text.splitlines()),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r\r\n"),
        lambda text: "".join(
            f"[ 11-26 10:22:33.123  1234: 1240 I/tflite   ]\n{line}\n\n" for line in text.splitlines()
        ),
        lambda text: "".join(f"I/tflite  ( 1234): {line}".rstrip() + "\n" for line in text.splitlines()),
    ],
    ids=["colour", "buffer", "process", "CRLF", "CRCRLF", "long", "trailing blanks removed"],
)  # fmt: skip
def test_what_logs_add_elsewhere_is_left_out_too(altered: Callable[[str], str]) -> None:
    found, expected = ([text.strip() for text in texts(logged)] for logged in (altered(TFLITE), TFLITE))
    assert [text for text in found if text] == [text for text in expected if text]
    file = Path("printed.log")
    assert TfliteReader().read(Section(file, lines_of(altered(TFLITE))))[0].profile


def test_messages_of_other_processes_do_not_break_a_table() -> None:
    lines = TFLITE.splitlines()
    logged = [
        text for line in lines for text in (f"I/tflite  ( 1234): {line}", "W/ActivityManager(  900): Slow operation: 60ms so far")
    ]
    found = lines_of("\n".join(logged) + "\n")
    assert [line.text for line in found[: len(lines)]] == texts(TFLITE)
    assert [line.number for line in found[:3]] == [1, 3, 5]


def test_a_line_without_a_process_stays_where_it_is() -> None:
    text = "# latcast network=a\nI/x(  2): one\nI/y(  1): two\nI/x(  2): three\n# latcast network=b\nI/y(  1): four\n"
    assert lines_of(text) == (
        Line(1, "# latcast network=a"), Line(2, "one"), Line(4, "three"), Line(3, "two"), Line(5, "# latcast network=b"),
        Line(6, "four"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "model,latency_ms", "resnet18,12.5", '{"model": "a", "latency_ms": 3}', "[ INFO ] Median: 3.5 ms", "loop_count = 4",
        "       squeezenet  min =   10.25  max =   11.00  avg =   10.50", "count=50 first=1 curr=1 min=1 max=1 avg=1 std=0",
        "Total inference requests: 100", "[Step 1/11] Parsing and validating input arguments", "",
    ],
)  # fmt: skip
def test_lines_of_the_tools_themselves_stay(text: str) -> None:
    assert texts(f"{text}\n") == [text]


def test_runs_without_a_warm_up_are_read_where_the_summary_repeats_their_average() -> None:
    def log(average_us: float) -> Section:
        lines = (
            "STARTING!",
            "count=50 first=50100 curr=50300 min=49900 max=51000 avg=50250 std=200",
            f"Inference timings in us: Init: 12300, First inference: 52000, Warmup (avg): 0, Inference (avg): {average_us}",
        )
        return Section(Path("printed.log"), lines_of("\n".join(lines)))

    [timing] = TfliteReader().read(log(50250))
    assert (timing.latency_ms, timing.runs, timing.warmup_runs) == (50.25, 50, 0)
    with pytest.raises(DatasetError, match="expected two lines 'count='"):
        TfliteReader().read(log(48000))
