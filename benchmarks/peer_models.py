"""Runs nn-Meter on ONNX files, in an environment where nothing but nn-Meter is installed: ``python peer_models.py ORDER``.

ORDER is a JSON file: ``{"models": [path, ...], "rules": {...}}``. It prints one JSON object a model.
nn-Meter's own predictors are pickles that no current scikit-learn opens, so the forests are of the sizes that its code gives
them, fitted to random numbers: only the time to evaluate them counts here.
"""

import contextlib
import gc
import io
import json
import sys
import tempfile
import time

FITTED_ROWS = 1000

VIEWS = ("Flatten", "Reshape", "Identity", "Constant", "Dropout", "Shape", "Squeeze", "Unsqueeze")
"""Operators that compute nothing; that no predictor estimates them is right."""

CPU_KERNELS = {
    "conv-bn-relu": "convbnrelu", "dwconv-bn-relu": "dwconvbnrelu", "fc": "fc", "global-avgpool": "global-avgpool",
    "hswish": "hswish", "relu": "relu", "se": "se", "split": "split", "add": "add", "addrelu": "addrelu", "maxpool": "maxpool",
    "avgpool": "avgpool", "bn": "bn", "bnrelu": "bnrelu", "channelshuffle": "channelshuffle", "concat": "concat",
}  # fmt: skip
"""Kernels that nn-Meter ships a predictor of for its mobile CPU (configs/predictors.yaml), and their names in its code."""


class Forests(dict):
    """nn-Meter's forests, each fitted to random numbers when it is first asked for."""

    def __contains__(self, kernel):
        return kernel in CPU_KERNELS

    def fit(self, kernel, features):
        import numpy as np
        from nn_meter.predictor.prediction.kernel_predictor import get_model
        from sklearn.ensemble import RandomForestRegressor

        model = get_model("cpu", CPU_KERNELS[kernel])
        if model is None:  # no size is given for this kernel
            model = RandomForestRegressor(n_estimators=330, random_state=10)
        rng = np.random.default_rng(0)
        model.set_params(oob_score=False, max_features=min(features, int(model.max_features or features)), n_jobs=1)
        model.fit(rng.random((FITTED_ROWS, features)), rng.random(FITTED_ROWS))
        self[kernel] = model


def features_by_kernel(units):
    """Return rows of features by kernel with a predictor, as nn-Meter's ``predict_model`` groups them."""
    from nn_meter.predictor.prediction.extract_feature import get_predict_features
    from nn_meter.predictor.prediction.predict_by_kernel import merge_conv_kernels
    from nn_meter.predictor.prediction.utils import get_kernel_name

    rows = {}
    for layer in get_predict_features(units).values():
        [(kernel, features)] = layer.items()
        rows.setdefault(get_kernel_name(merge_conv_kernels(kernel)), []).append(features)
    return rows


def predicted_nodes(detector, units, forests):
    """Return the names of the file's nodes that lie in a kernel with features and a predictor."""
    from nn_meter.predictor.prediction.extract_feature import get_predict_features
    from nn_meter.predictor.prediction.predict_by_kernel import merge_conv_kernels
    from nn_meter.predictor.prediction.utils import get_kernel_name

    predicted = set()
    for unit in units:
        found = get_predict_features([unit])
        if found:
            [(kernel, _)] = found[0].items()
            if get_kernel_name(merge_conv_kernels(kernel)) in forests:
                for block in detector.bbs[int(unit["name"].rpartition("#")[2])]:
                    predicted.update(block.split(";"))  # fused blocks join the names of their nodes
    return predicted


def run(path, rules, forests):
    """Return the figures of one model; times are CPU seconds."""
    import onnx
    from nn_meter.ir_converter import model_file_to_graph
    from nn_meter.kernel_detector import KernelDetector

    gc.collect()
    start = time.process_time()
    detector = KernelDetector(rules)
    detector.load_graph(model_file_to_graph(path, "onnx"))
    units = detector.get_kernels()
    rows = features_by_kernel(units)
    analysed = time.process_time()
    for kernel, features in rows.items():
        if kernel in forests and kernel not in dict.keys(forests):
            forests.fit(kernel, len(features[0]))
    start_predicting = time.process_time()
    for kernel, features in rows.items():
        if kernel in forests:
            forests[kernel].predict(features)
    done = time.process_time()
    predicted = predicted_nodes(detector, units, forests)
    dropped = [node.op_type for node in onnx.load(path).graph.node if node.op_type not in VIEWS and node.name not in predicted]
    return {
        "analysis_s": analysed - start, "prediction_s": done - start_predicting, "kernels": len(units),
        "dropped": {name: dropped.count(name) for name in sorted(set(dropped))},
    }  # fmt: skip


def main(order_path):
    with open(order_path, encoding="utf-8") as file:
        order = json.load(file)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json", delete=False) as file:
        json.dump(order["rules"], file)
    forests = Forests()
    answers = sys.stdout
    for number, path in enumerate([order["models"][0], *order["models"]]):
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                found = run(path, file.name, forests)
            except Exception as problem:
                found = {"error": f"{type(problem).__name__}: {problem}"}
        if number:  # the first one is run twice, to warm up
            print(json.dumps({"path": path, **found}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
