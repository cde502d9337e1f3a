# %% [markdown]
# # Phones side by side
#
# Which network is worth its milliseconds on which phone? Nothing is measured here: a fresh `pip install
# 'latcast[plots]'` knows the phones, and runs this page offline in seconds.

# %%
import latcast
from latcast import drawing

gpus = [each.id for each in latcast.platforms("*/tflite-2.10/gpu/fp16")]
gpus

# %% [markdown]
# One network on all of them. A prediction has its 90 % interval, and says what to doubt.

# %%
forecasts = latcast.predict("mobilenet_v2", on=gpus)
figure = latcast.plot(forecasts)
figure

# %% [markdown]
# Published networks of a few families, on one GPU, against their published accuracy. The line of steps is the
# Pareto front: whatever lies below it is slower and less accurate than something else.

# %%
phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
networks = [each for each in latcast.models("timm/mobilenet*") + latcast.models("timm/resnet*") if each.top1_percent]
found = [phone.predict(each.name, breakdown=False) for each in networks]
accuracy = [each.top1_percent for each in networks]

best, front = 0.0, [False] * len(found)
for row in sorted(range(len(found)), key=lambda row: found[row].latency_ms):
    front[row] = accuracy[row] > best
    best = max(best, accuracy[row])
f"{len(found)} networks, {sum(front)} on the front"

# %%
drawing.pareto(
    [each.latency_ms for each in found],
    accuracy,
    quality_name="top-1 accuracy, %",
    bounds_ms=([each.low_ms for each in found], [each.high_ms for each in found]),
    names=[each.name.removeprefix("timm/") for each in networks],
    front=front,
    title=str(phone.platform),
)

# %% [markdown]
# Of these, which are within 10 ms with the upper end of their intervals?

# %%
for row in sorted(range(len(found)), key=lambda row: -accuracy[row]):
    if found[row].high_ms <= 10:
        print(f"{accuracy[row]:5.1f} %  {found[row].latency_ms:5.2f} ms  up to {found[row].high_ms:5.2f}  {networks[row].name}")
