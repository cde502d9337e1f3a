# %% [markdown]
# # Where the time goes
#
# A latency is a sum over kernels, so a prediction can say which of them cost it. Offline, with `pip install
# 'latcast[plots]'`.

# %%
import latcast
from latcast.tables import milliseconds

phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
forecast = phone.predict("mobilenet_v2")
forecast

# %% [markdown]
# The slowest kernels. A kernel is what the runtime executes: operators that it fuses are one.

# %%
for kernel in forecast.top(8):
    print(f"{kernel.latency_ms:6.3f} ms  {kernel.name:<28} {' + '.join(kernel.operators)}")

# %%
forecast.by_type()

# %%
forecast.plot()

# %% [markdown]
# **What would make it faster?** Each hint is a second prediction, of the edited graph, with an interval of the difference.

# %%
for hint in latcast.explain("mobilenet_v2", on=phone).hints:
    print(f"{hint.text}: {milliseconds(hint.difference_ms)} ms ({milliseconds(hint.low_ms)} to {milliseconds(hint.high_ms)})")

# %% [markdown]
# **What a smaller image saves.** Latency falls with the area until what each kernel costs by itself is left.

# %%
latcast.sweep("mobilenet_v2", phone, "input=1,3,{128..256..32},=").plot()

# %% [markdown]
# **What to doubt.** This GPU was learned from convolutional networks. Of a vision transformer most of the
# latency is estimated, and the prediction says so.

# %%
doubtful = phone.predict("deit_tiny_16")
print(doubtful.grade.in_words())
for warning in doubtful.warnings:
    print(warning)
