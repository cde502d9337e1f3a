"""Stand-ins for the stock tools: they print in the formats of their sources, from running the network here.

A flag that the real tool does not have is refused, so that a misspelt one shows.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.datasets.importers.benchmark_tools.printed_profile import COLUMNS, Row, table_row

BENCHMARK_MODEL_FLAGS = frozenset({
    "graph", "num_threads", "num_runs", "min_secs", "max_secs", "warmup_runs", "warmup_min_secs", "input_layer",
    "input_layer_shape", "input_layer_value_files",
    "use_gpu", "gpu_precision_loss_allowed", "use_nnapi", "enable_op_profiling", "output_filepath",
})  # fmt: skip

_ONE_AT_A_TIME = threading.Lock()


class ToolFailed(Exception):
    """The tool ended with an error; ``printed`` is what it wrote before."""

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


def run_tool(program: str, words: Sequence[str], folder: Path, slowdown: float) -> str:
    """What a tool prints when it is called in a folder."""
    tools: dict[str, Callable[[Sequence[str], Path, float], str]] = {
        "benchmark_model": benchmark_model, "benchncnn": benchncnn, "MNNV2Basic.out": mnn_basic,
        "onnxruntime_perf_test": onnxruntime_perf_test,
    }  # fmt: skip
    with _ONE_AT_A_TIME:
        return tools[program](words, folder, slowdown)


def timed_us(run: Callable[[], object], count: int, slowdown: float) -> list[float]:
    found = []
    for _ in range(count):
        start = time.perf_counter_ns()
        run()
        found.append(slowdown * (time.perf_counter_ns() - start) / 1e3)
    return found


def figures(runs_us: Sequence[float]) -> str:
    """As TFLite's ``Stat`` prints itself, in whole microseconds."""
    whole = [int(each) for each in runs_us]
    if len(set(whole)) < 2:
        return f"count={len(whole)} curr={whole[-1]}"
    low, middle, high = (int(np.quantile(whole, level)) for level in (0.05, 0.5, 0.95))
    return (
        f"count={len(whole)} first={whole[0]} curr={whole[-1]} min={min(whole)} max={max(whole)} avg={np.mean(whole):.6g} "
        f"std={np.std(whole):.0f} p5={low} median={middle} p95={high}"
    )


def benchmark_model(words: Sequence[str], folder: Path, slowdown: float) -> str:
    """TFLite's, as of 2.17 (tools/benchmark/benchmark_model.cc, profiling/profile_summarizer.cc)."""
    from ai_edge_litert.interpreter import Interpreter

    from latcast.runtimes.litert_native import NativeModel

    flags = dict(word.removeprefix("--").split("=", 1) for word in words)
    unknown = sorted(set(flags) - BENCHMARK_MODEL_FLAGS)
    if unknown:
        raise ToolFailed(f"ERROR: Unconsumed cmdline flags: --{unknown[0]}")
    path = folder / flags["graph"]
    if not path.is_file():
        raise ToolFailed(f"ERROR: Failed to mmap model {flags['graph']}", "INFO: STARTING!\n")
    data = path.read_bytes()
    threads, runs, warmups = (int(flags[name]) for name in ("num_threads", "num_runs", "warmup_runs"))
    values = flags["input_layer_value_files"]
    files = [part.rpartition(":")[2] for part in values.split(",") if part.endswith(".bin")]
    interpreter = Interpreter(model_content=data, num_threads=threads)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    assert flags["input_layer_shape"] == ":".join(",".join(map(str, each["shape"])) for each in details)
    inputs = [np.fromfile(folder / file, each["dtype"]).reshape(each["shape"]) for file, each in zip(files, details, strict=True)]
    for array, each in zip(inputs, details, strict=True):
        interpreter.set_tensor(each["index"], array)
    warm_us = timed_us(interpreter.invoke, max(warmups, 1), slowdown)
    runs_us = timed_us(interpreter.invoke, runs, slowdown)
    if "output_filepath" in flags:
        made = b"".join(interpreter.get_tensor(each["index"]).tobytes() for each in interpreter.get_output_details())
        (folder / flags["output_filepath"]).write_bytes(made)
    profiling = flags.get("enable_op_profiling") == "true"
    limit = f"terminate if exceeding {flags['max_secs']} seconds"
    lines = [
        "INFO: STARTING!", "INFO: Log parameter values verbosely: [0]", f"INFO: Min num runs: [{runs}]",
        f"INFO: Num threads: [{threads}]", f"INFO: Graph: [{flags['graph']}]",
        *(["INFO: Enable op profiling: [1]"] if profiling else []),
        f"INFO: #threads used for CPU inference: [{threads}]", f"INFO: Use gpu: [{int(flags.get('use_gpu') == 'true')}]",
        f"INFO: Loaded model {flags['graph']}", "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
        "INFO: Initialized session in 2.5ms.",
        f"INFO: Running benchmark for at least {warmups} iterations and at least 0 seconds but {limit}.",
        f"INFO: {figures(warm_us)}", "",
        f"INFO: Running benchmark for at least {runs} iterations and at least 0 seconds but {limit}.",
        f"INFO: {figures(runs_us)}", "",
        f"INFO: Inference timings in us: Init: 2500, First inference: {warm_us[0]:.0f}, Warmup (avg): {np.mean(warm_us):.6g}, "
        f"Inference (avg): {np.mean(runs_us):.6g}",
    ]  # fmt: skip
    if profiling:
        native = NativeModel(data, threads=threads)
        try:
            native.set_inputs(inputs)
            recorded = [native.profiled_run() for _ in range(2 + runs)][2:]
        finally:
            native.close()
        lines += profile_table(data, recorded, slowdown)
    return "\n".join(lines) + "\n"


def profile_table(data: bytes, recorded: Sequence[Any], slowdown: float) -> list[str]:
    """The table of operators: lines of one name together, in the order in which they first ran."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data)
    names = {each["index"]: each["name"] for each in interpreter.get_tensor_details()}
    operators = interpreter._get_ops_details()
    rows: dict[str, Row] = {}
    for events in recorded:
        for event in events:
            name = f"Delegate/{event.tag}:{event.index}"
            if not event.delegated:
                name = f"[{', '.join(names[index] for index in operators[event.index]['outputs'])}]:{event.index}"
            # XNNPACK truncates to whole microseconds.
            rows.setdefault(name, Row(event.tag, name)).elapsed_us.append(slowdown * (event.elapsed_us + 0.5))
    header = f"{'[node type]':>48}" + "".join(f"{f'[{name}]':>17}" for name in COLUMNS) + "\t[Name]"
    order = "============================== Run Order =============================="
    return [
        "INFO: Operator-wise Profiling Info for Regular Benchmark Runs:", order, header,
        *(table_row(row, len(recorded)) for row in rows.values()), "",
        "============================== Top by Computation Time ==============================", "",
    ]  # fmt: skip


def benchncnn(words: Sequence[str], folder: Path, slowdown: float) -> str:
    """ncnn's (benchmark/benchncnn.cpp), with its options param= and shape=."""
    import ncnn

    loops, threads, powersave, gpu, cooling = (int(word) for word in words[:5])
    options = dict(word.split("=", 1) for word in words[5:])
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_vulkan_compute = gpu >= 0
    if net.load_param(str(folder / options["param"])) != 0:
        raise ToolFailed("load_param failed")
    net.load_model(ncnn.DataReaderFromEmpty())
    shapes = [[int(size) for size in found.split(",")] for found in re.findall(r"\[([\d,]+)\]", options["shape"])]
    inputs = [ncnn.Mat(np.full(shape[::-1], 0.01, np.float32)).clone() for shape in shapes]

    def run() -> None:
        extractor = net.create_extractor()
        for name, mat in zip(net.input_names(), inputs, strict=True):
            extractor.input(name, mat)
        for name in net.output_names():
            _, made = extractor.extract(name)
            del made
        extractor.clear()

    timed_us(run, 2, 1.0)
    runs_ms = [each / 1e3 for each in timed_us(run, loops, slowdown)]
    net.clear()
    name = options["param"].removesuffix(".param")
    return (
        f"loop_count = {loops}\nnum_threads = {threads}\npowersave = {powersave}\ngpu_device = {gpu}\ncooling_down = {cooling}\n"
        f"{name:>20}  min = {min(runs_ms):7.2f}  max = {max(runs_ms):7.2f}  avg = {np.mean(runs_ms):7.2f}\n"
    )


def mnn_basic(words: Sequence[str], folder: Path, slowdown: float) -> str:
    """MNN's MNNV2Basic.out (tools/cpp/MNNV2Basic.cpp)."""
    from latcast.runtimes.mnn_native import LIBRARY, imported
    from latcast.runtimes.session import prints_kept

    library = imported(LIBRARY)
    model, runs, _, forward, threads, precision = words[0], *(int(word) for word in words[1:6])
    with prints_kept():
        net = library.Interpreter(str(folder / model))
        session = net.createSession({"backend": "CPU", "numThread": threads, "precision": "high"})
        for _ in range(3):
            net.runSession(session)
        spent_ms: dict[str, float] = defaultdict(float)
        kinds: dict[str, str] = {}
        start = 0

        def before(tensors: object, operator: Any) -> bool:
            nonlocal start
            kinds[operator.getName()] = operator.getType()
            start = time.perf_counter_ns()
            return True

        def after(tensors: object, operator: Any) -> bool:
            spent_ms[operator.getName()] += slowdown * (time.perf_counter_ns() - start) / 1e6
            return True

        runs_ms = [
            each / 1e3 for each in timed_us(lambda: net.runSessionWithCallBackInfo(session, before, after), runs, slowdown)
        ]
    lines = [
        f"Use extra forward type: {forward}", "", f"Open Model {model}",
        "Session Info: memory use 1.500000 MB, flops is 3.000000 M, backendType is 0", "===========> Session Resize Done.",
        "===========> Session Start running...", f"precision:{precision}, memory: 0, Run {runs} time:",
    ]  # fmt: skip
    for name, total_ms in sorted(spent_ms.items(), key=lambda each: each[1]):
        mean_ms = total_ms / runs
        share = 100 * total_ms / sum(runs_ms)
        lines.append(f"{name:>50} \t[{kinds[name]}] run {runs} average cost {mean_ms:f} ms, {share:.3f} %, FlopsRate: 1.000 %")
    operators_ms = sum(spent_ms.values()) / runs
    lines.append(f"Avg= {np.mean(runs_ms):f} ms, OpSum = {operators_ms:f} ms min= {min(runs_ms):f} ms, max= {max(runs_ms):f} ms")
    return "\n".join(lines) + "\n"


def onnxruntime_perf_test(words: Sequence[str], folder: Path, slowdown: float) -> str:
    """ONNX Runtime's (onnxruntime/test/perftest)."""
    import onnxruntime

    flags: dict[str, str] = {}
    waiting = list(words)
    while waiting and waiting[0].startswith("-"):
        flag = waiting.pop(0)
        flags[flag] = "" if flag in ("-I", "-z", "-v", "-s") else waiting.pop(0)
    unknown = sorted(set(flags) - {"-I", "-z", "-v", "-s", "-S", "-m", "-r", "-x", "-e", "-p", "-u"})
    if unknown or len(waiting) != 1:
        raise ToolFailed(f"ERROR: Unknown command line flag '{(unknown or waiting)[0]}'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(flags["-x"])
    options.log_severity_level = 3
    if "-p" in flags:
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / flags["-p"])
    if "-u" in flags:
        options.optimized_model_filepath = str(folder / flags["-u"])
    session = onnxruntime.InferenceSession(str(folder / waiting[0]), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(int(flags["-S"]))
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
    feeds = {each.name: rng.random(each.shape).astype(types[each.type]) for each in session.get_inputs()}

    def run() -> None:
        session.run(None, feeds)

    timed_us(run, 1, 1.0)
    runs_s = [each / 1e6 for each in timed_us(run, int(flags["-r"]), slowdown)]
    if "-p" in flags:
        session.end_profiling()
    quantiles = "\n".join(f"P{level} Latency: {np.quantile(runs_s, level / 100):g} s" for level in (50, 90, 95, 99))
    return "\n".join(
        [
            f"Setting intra_op_num_threads to {flags['-x']}", "Session creation time cost: 0.0273071 s",
            *(f"iteration:{number},time_cost:{run_s:g}" for number, run_s in enumerate(runs_s, start=1)),
            f"First inference time cost: {1e3 * runs_s[0]:.0f} ms", f"Total inference time cost: {sum(runs_s):g} s",
            f"Total inference requests: {len(runs_s)}", f"Average inference time cost: {1e3 * np.mean(runs_s):g} ms",
            f"Total inference run time: {sum(runs_s):g} s", f"Number of inferences per second: {1 / np.mean(runs_s):g} ",
            f"Min Latency: {min(runs_s):g} s", f"Max Latency: {max(runs_s):g} s", quantiles, "",
        ]
    )  # fmt: skip
