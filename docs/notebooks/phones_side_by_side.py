# %% [markdown]
# # Phones side by side
#
# Which network is worth its milliseconds on which phone? Nothing is measured here: a fresh install
# with the extra `plots` knows the phones, and runs this page offline in seconds.

# %%
import latcast

gpus = [each.id for each in latcast.platforms("*/tflite-2.10/gpu/fp16")]
gpus

# %% [markdown]
# One network on all of them. A prediction has its 90 % interval, and says what to doubt.

# %%
forecasts = latcast.predict("mobilenet_v2", on=gpus)
figure = latcast.plot(forecasts)
figure

# %% [markdown]
# Which of the named networks is the most accurate that takes at most 10 ms on two of these GPUs, with 90 %
# certainty? Accuracies are those published with the weights.

# %%
found = latcast.choose(["pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/gpu/fp16"], max_ms=10)
f"{found.pick.name}: {found.pick.accuracy} %", [f"{each.latency_ms:.2f} ms" for each in found.pick.latencies]

# %% [markdown]
# All of them against their accuracy. The line of steps is the Pareto front: whatever lies below it is slower and
# less accurate than something else.

# %%
found.plot()
