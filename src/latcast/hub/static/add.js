// "Add your device": measures in a worker, shows what would be sent, asks, sends, shows predictions.

const ROUNDS = 3;
const $ = (id) => document.getElementById(id);
const form = $("form");

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
const quartileVariation = (values) => {
  if (values.length < 2) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const low = Math.floor(place);
    return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  };
  return (at(0.75) - at(0.25)) / 2 / median(values);
};
const percent = (share) => (share === null ? "–" : (100 * share).toFixed(1));
const shown = (ms) => (ms === null ? "–" : ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms >= 1 ? ms.toFixed(2) : ms.toFixed(3));

function cells(texts) {
  const row = document.createElement("tr");
  for (const text of texts) {
    const cell = document.createElement("td");
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

// The browser and its main version, as a part of a platform id: "chromium156".
function browser() {
  const brands = navigator.userAgentData?.brands ?? [];
  const known = ["Google Chrome", "Microsoft Edge", "Opera", "Samsung Internet", "Chromium"];
  for (const name of known) {
    const found = brands.find((item) => item.brand === name);
    if (found) return { name, version: found.version, id: name.toLowerCase().replace(/^.* /, "").replace(/[^a-z]/g, "") + found.version };
  }
  const agent = navigator.userAgent;
  for (const [name, pattern] of [["Firefox", /(?:Firefox|FxiOS)\/(\d+)/], ["Edge", /Edg\w*\/(\d+)/], ["Chrome", /(?:HeadlessChrome|Chrome|CriOS)\/(\d+)/], ["Safari", /Version\/(\d+).*Safari/]]) {
    const found = agent.match(pattern);
    if (found) return { name, version: found[1], id: name.toLowerCase() + found[1] };
  }
  return { name: "unknown", version: "0", id: "browser" };
}

const slug = (text) => text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60);
const system = () => navigator.userAgentData?.platform || (navigator.userAgent.match(/\(([^;)]+)/) || ["", "unknown"])[1];

const state = { networks: [], check: [], records: [], latencies: {}, predictions: [], settings: null };

async function json(path, options) {
  const answer = await fetch(path, options);
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const problem = new Error(typeof data.detail === "string" ? data.detail : `the server answered ${answer.status}`);
    problem.status = answer.status;
    throw problem;
  }
  return data;
}

async function offerUnits() {
  const unit = $("unit");
  const cores = navigator.hardwareConcurrency || 1;
  const offer = (value, text) => unit.append(new Option(text, value));
  offer("wasm1", "CPU, one thread (WebAssembly)");
  if (self.crossOriginIsolated) {
    for (let threads = 2; threads <= Math.min(cores, 8); threads *= 2) offer(`wasm${threads}`, `CPU, ${threads} threads (WebAssembly)`);
    $("isolation").textContent = `${cores} cores can be used.`;
  } else {
    $("isolation").textContent = "One thread only: browsers allow more over HTTPS or on localhost, not over plain HTTP.";
  }
  if (form.dataset.webgpu === "yes" && navigator.gpu) {
    const adapter = await navigator.gpu.requestAdapter().catch(() => null);
    if (adapter) offer("webgpu", "GPU (WebGPU)");
  }
}

function measure(networks, rounds) {
  $("running").hidden = false;
  const gpu = state.settings.unit === "webgpu";
  const worker = new Worker("/static/measure.worker.js", { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "the worker could not start"));
    worker.onmessage = ({ data }) => {
      if (data.kind === "progress") {
        $("progress").value = data.share;
        $("state").textContent = `Running ${data.name} …`;
      } else if (data.kind === "done") {
        resolve(data.found);
      } else {
        reject(new Error(data.text));
      }
    };
    worker.postMessage({
      networks,
      rounds,
      provider: gpu ? "webgpu" : "wasm",
      threads: gpu ? 1 : state.settings.threads,
      base: new URL(form.dataset.package, location.href).href,
    });
  }).finally(() => {
    worker.terminate();
    $("running").hidden = true;
  });
}

// One line of JSON. The reference is put in as the server wrote it: its key is a hash of that text's numbers.
function record(network, found) {
  const { platform, environment } = state.settings;
  const ok = !found.error;
  const latency = ok ? median(found.runs) : null;
  const rest = {
    schema: 1,
    platform,
    role: "network",
    runs_ms: found.runs.map((value) => Number(value.toFixed(4))),
    rounds: found.rounds,
    latency_ms: latency,
    raw_latency_ms: latency,
    variation: ok ? quartileVariation(found.runs) : null,
    statistic: "median of runs",
    warmup_runs: found.warmUps,
    taken_at: new Date().toISOString(),
    error: found.error,
    environment,
  };
  return `${JSON.stringify(rest).slice(0, -1)},"reference":${network.reference_text}}`;
}

async function start(event) {
  event.preventDefault();
  const device = slug($("device").value);
  if (!device || device === "local") {
    $("isolation").textContent = "Please name your device, with letters or digits.";
    return;
  }
  $("start").disabled = true;
  try {
    const listed = await json("/api/signature");
    state.networks = listed.signature;
    state.check = listed.check;
    const unit = $("unit").value;
    const threads = unit === "webgpu" ? 1 : Number(unit.slice(4));
    const seen = browser();
    const version = form.dataset.version;
    const qualifiers = unit === "webgpu" ? [unit, seen.id] : [unit, "simd", seen.id];
    state.settings = {
      unit,
      threads,
      platform: `${device}/onnxruntime-web-${version.split(".").slice(0, 2).join(".")}/${qualifiers.join("+")}/fp32`,
      environment: {
        host: { system: system(), cpus: navigator.hardwareConcurrency ?? null, memory_gib_at_most: navigator.deviceMemory ?? null },
        software: { "onnxruntime-web": version, browser: seen.name, browser_version: seen.version },
        settings: { provider: unit === "webgpu" ? "webgpu" : "wasm", threads, simd: unit !== "webgpu", isolated: self.crossOriginIsolated },
        moment: { worker: crypto.getRandomValues(new Uint32Array(2)).join("-") },
      },
    };
    const found = await measure(state.networks, ROUNDS);
    state.records = [];
    state.latencies = {};
    $("measured").replaceChildren();
    found.forEach((item, index) => {
      const network = state.networks[index];
      state.records.push(record(network, item));
      if (item.error) {
        $("measured").append(cells([network.name, "failed", "", item.error]));
      } else {
        state.latencies[network.key] = median(item.runs);
        $("measured").append(cells([network.name, shown(median(item.runs)), percent(quartileVariation(item.runs)), item.runs.length]));
      }
    });
    if (!Object.keys(state.latencies).length) throw new Error(`no network ran here: ${found[0].error}`);
    $("where").textContent = location.host;
    $("platform").textContent = state.settings.platform;
    $("content").textContent = state.records.map((line) => JSON.stringify(JSON.parse(line), null, 1)).join("\n");
    $("results").hidden = false;
    $("results").scrollIntoView({ behavior: "smooth" });
  } catch (problem) {
    $("running").hidden = false;
    $("state").textContent = `Something went wrong: ${problem.message}`;
  } finally {
    $("start").disabled = false;
  }
}

async function send() {
  $("send").disabled = true;
  $("answer").textContent = "Sending …";
  try {
    const body = `${state.records.join("\n")}\n`;
    const headers = { "content-type": "application/x-ndjson", authorization: `Bearer ${$("token").value.trim()}` };
    const answer = await json("/api/measurements", { method: "POST", headers, body });
    const held = answer.quarantined.map((item) => ` ${item.network}: held back, ${item.reason}.`).join("");
    $("answer").textContent = `Thank you: ${answer.accepted} measurements accepted.${held}`;
    await predict();
  } catch (problem) {
    $("answer").textContent = `Not sent: ${problem.message}`;
    $("send").disabled = false;
  }
}

async function predict() {
  const body = JSON.stringify({ measured: state.latencies });
  for (let attempt = 0; ; attempt += 1) {
    try {
      const answer = await json("/api/predict", { method: "POST", headers: { "content-type": "application/json" }, body });
      state.predictions = answer.predictions.filter((item) => item.latency_ms !== null).sort((a, b) => a.latency_ms - b.latency_ms);
      $("model").textContent = `By version ${answer.model} of the hub's model.`;
      break;
    } catch (problem) {
      if (problem.status !== 409 || attempt >= 20) {
        $("answer").textContent += ` No predictions: ${problem.message}`;
        return;
      }
      await new Promise((resume) => setTimeout(resume, 1500));
    }
  }
  showPredictions({});
  const known = new Set(state.predictions.map((item) => item.key));
  $("check").hidden = !state.check.some((item) => known.has(item.key));
  $("predictions").hidden = false;
}

function showPredictions(measured) {
  $("predicted").replaceChildren(
    ...state.predictions.slice(0, 200).map((item) => {
      const real = measured[item.key];
      const off = real ? (100 * (item.latency_ms / real - 1)).toFixed(1) : "";
      return cells([item.name, shown(item.latency_ms), `${shown(item.low_ms)} – ${shown(item.high_ms)}`, real ? shown(real) : "", off]);
    }),
  );
}

async function check() {
  $("check").disabled = true;
  try {
    const known = new Map(state.predictions.map((item) => [item.key, item.latency_ms]));
    const networks = state.check.filter((item) => known.has(item.key));
    const found = await measure(networks, ROUNDS);
    const measured = {};
    found.forEach((item, index) => {
      if (!item.error) measured[networks[index].key] = median(item.runs);
    });
    showPredictions(measured);
    const errors = Object.entries(measured).map(([key, real]) => Math.abs(known.get(key) / real - 1));
    const mape = (100 * errors.reduce((sum, value) => sum + value, 0)) / errors.length;
    $("checked").textContent = `Off by ${mape.toFixed(1)} % on average of ${errors.length} networks.`;
    $("checked").dataset.mape = String(mape);
  } catch (problem) {
    $("checked").textContent = `Something went wrong: ${problem.message}`;
  } finally {
    $("check").disabled = false;
  }
}

if (form) {
  offerUnits();
  const invited = new URLSearchParams(location.hash.slice(1)).get("token");
  if (invited) {
    $("token").value = invited;
    history.replaceState(null, "", location.pathname); // not to be left in the address bar
  }
  navigator.userAgentData?.getHighEntropyValues(["model"]).then(({ model }) => {
    if (model && !$("device").value) $("device").value = model;
  });
  form.addEventListener("submit", start);
  $("send").addEventListener("click", send);
  $("keep").addEventListener("click", predict);
  $("check").addEventListener("click", check);
}
