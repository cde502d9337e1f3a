# %% [markdown]
# # A search in a loop
#
# Architecture search asks for a latency thousands of times. `LatencyCallback` answers for encodings, without
# building a graph for any of them. Offline, with `pip install 'latcast[plots]'`.

# %%
import time

import numpy as np

import latcast
from latcast import drawing

latency_ms = latcast.LatencyCallback("pixel4/tflite-2.10/gpu/fp16", "ofa_mobilenet_v3")
space = latency_ms.encoded.supernet

# %%
encodings = space.sample_encodings(5_000, seed=0)  # (networks, columns), small integers
for what in ("parts of the space met for the first time", "all known"):
    started = time.perf_counter()
    found = latency_ms.encoded.predict_many(encodings)
    print(f"{len(encodings) / (time.perf_counter() - started):,.0f} networks a second, {what}")

# %% [markdown]
# Hold the *upper end* of the interval to the limit: a search finds what a predictor underestimates, so picks
# right below a limit are missed more often than predictions are low.

# %%
limit_ms = float(np.quantile(found.high_ms, 0.25))
fits = found.high_ms <= limit_ms
print(f"{fits.sum()} of {len(fits)} networks fit {limit_ms:.2f} ms")

# %% [markdown]
# Multiply-accumulates stand in for an accuracy here, which they are not: in a search of your own, your
# supernet's accuracy takes their place.

# %%
some = np.flatnonzero(fits)
quality = latency_ms.encoded.sizes(encodings[some]).macs / 1e6
faster = found.latency_ms[some][:, None] > found.latency_ms[some][None, :]
front = ~np.any(faster & (quality[:, None] <= quality[None, :]), axis=1)
drawing.pareto(
    found.latency_ms[some], quality, quality_name="million MACs", bounds_ms=(found.low_ms[some], found.high_ms[some]),
    front=front, max_latency_ms=limit_ms, title="random members of ofa_mobilenet_v3",
)  # fmt: skip

# %% [markdown]
# `latcast search ofa_mobilenet_v3 --on pixel4/tflite-2.10/gpu/fp16 --max-latency-ms 8` does it by evolution
# (`pip install 'latcast[search]'`), and `latency_ms.excess(encodings, limit_ms)` is a penalty for an evolution
# of your own.

# %%
latency_ms.excess(encodings[:5], limit_ms)
