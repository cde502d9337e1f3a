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
// A number that rounds to 0 has no minus sign: -0 + 0 is 0.
const percent = (share) => (share === null ? "–" : (Number((100 * share).toFixed(1)) + 0).toFixed(1));
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

const named = (text) =>
  text.normalize("NFKD").replace(/[^\x00-\x7f]/g, "").toLowerCase().replace(/[^a-z0-9._+]+/g, "-").replace(/^[-._+]+|[-._]+$/g, "");
const slug = (text) => (/^[a-z0-9][a-z0-9._+-]*$/.test(text) ? text : named(text)).slice(0, 60);
const system = () => navigator.userAgentData?.platform || (navigator.userAgent.match(/\(([^;)]+)/) || ["", "unknown"])[1];

// Of latencies that vary by more than this share, the page asks for another try.
const WIDE = 0.15;

// A run is what one platform measured: {settings, networks, found}.
const state = { check: [], runs: [], predictions: [], worker: null, wakeLock: null, hidden: false, asked: false };

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

function choice(name, value, text, checked) {
  const box = Object.assign(document.createElement("input"), { type: "checkbox", name, value, checked });
  const label = document.createElement("label");
  label.className = "choice";
  label.append(box, ` ${text}`);
  $(name).append(label);
}

async function offerUnits() {
  const cores = navigator.hardwareConcurrency || 1;
  choice("units", "wasm1", "CPU, one thread (WebAssembly)", true);
  if (self.crossOriginIsolated) {
    for (let threads = 2; threads <= Math.min(cores, 8); threads *= 2) choice("units", `wasm${threads}`, `CPU, ${threads} threads (WebAssembly)`, false);
    $("isolation").textContent = cores === 1 ? "1 core can be used." : `${cores} cores can be used.`;
  } else {
    $("isolation").textContent = "One thread only: browsers allow more over HTTPS or on localhost, not over plain HTTP.";
  }
  if (navigator.gpu) {
    const adapter = await navigator.gpu.requestAdapter().catch(() => null);
    if (adapter) choice("units", "webgpu", "GPU (WebGPU)", false);
  }
}

const chosen = (name) => [...document.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value);

// A screen that goes dark slows a phone down, or stops it.
async function stayAwake() {
  state.wakeLock = await navigator.wakeLock?.request("screen").catch(() => null);
}

document.addEventListener("visibilitychange", () => {
  if (!state.worker) return;
  if (document.hidden) state.hidden = true;
  else stayAwake();
});

class Cancelled extends Error {}

async function measure(settings, networks, rounds) {
  $("running").hidden = false;
  $("cancel").focus();
  await stayAwake();
  const gpu = settings.unit === "webgpu";
  const worker = new Worker(form.dataset.worker, { type: "module" });
  state.worker = worker;
  return new Promise((resolve, reject) => {
    state.cancel = () => reject(new Cancelled("cancelled; nothing was sent"));
    worker.onerror = (event) => reject(new Error(event.message || "the worker could not start"));
    worker.onmessage = ({ data }) => {
      if (data.kind === "progress") {
        $("progress").value = data.share;
        $("state").textContent = `Running ${data.name} (${settings.unit}, ${settings.precision}) …`;
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
      precision: settings.precision,
      threads: settings.threads,
      base: new URL(form.dataset.package, location.href).href,
      wasm: JSON.parse(form.dataset.wasm)[gpu ? "webgpu" : "wasm"],
    });
  }).finally(() => {
    worker.terminate();
    state.worker = null;
    state.wakeLock?.release();
    state.wakeLock = null;
    $("running").hidden = true;
  });
}

function settingsOf(device, unit, precision) {
  const gpu = unit === "webgpu";
  const threads = gpu ? 1 : Number(unit.slice(4));
  const seen = browser();
  const version = form.dataset.version;
  const qualifiers = gpu ? [unit, seen.id] : [unit, "simd", seen.id];
  return {
    unit,
    threads,
    precision,
    platform: `${device}/onnxruntime-web-${version.split(".").slice(0, 2).join(".")}/${qualifiers.join("+")}/${precision}`,
    environment: {
      host: { system: system(), cpus: navigator.hardwareConcurrency ?? null, memory_gib_at_most: navigator.deviceMemory ?? null },
      software: { "onnxruntime-web": version, browser: seen.name, browser_version: seen.version },
      settings: { provider: gpu ? "webgpu" : "wasm", threads, simd: !gpu, isolated: self.crossOriginIsolated },
      moment: { worker: crypto.getRandomValues(new Uint32Array(2)).join("-") },
    },
  };
}

// One line of JSON. The reference is put in as the server wrote it: its key is a hash of that text's numbers.
function record({ platform, environment }, network, found) {
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
    taken_at: found.takenAt,
    error: found.error,
    environment,
  };
  return `${JSON.stringify(rest).slice(0, -1)},"reference":${network.reference_text}}`;
}

const records = () => state.runs.flatMap((run) => run.found.map((item, index) => record(run.settings, run.networks[index], item)));
const variation = (item) => (item.error ? 0 : (quartileVariation(item.runs) ?? 0));
const wide = () => state.runs.flatMap((run) => run.found.filter((item) => variation(item) > WIDE));

// The latencies that predictions are made from: those of the first platform.
function latencies() {
  const [run] = state.runs;
  const good = run.found.map((item, index) => [run.networks[index].key, item]).filter(([, item]) => !item.error);
  return Object.fromEntries(good.map(([key, item]) => [key, median(item.runs)]));
}

function stamped(found) {
  const takenAt = new Date().toISOString();
  return found.map((item) => ({ ...item, takenAt }));
}

async function start(event) {
  event.preventDefault();
  const device = slug($("device").value);
  const [units, precisions] = [chosen("units"), chosen("precisions")];
  if (!device || device === "local") {
    $("isolation").textContent = "Please name your device, with letters or digits.";
    $("device").focus();
    return;
  }
  if (!units.length || !precisions.length) {
    $("isolation").textContent = "Please choose what to run on, and a precision.";
    return;
  }
  $("start").disabled = true;
  state.hidden = false;
  try {
    const listed = await json("/api/signature");
    state.check = listed.check;
    const runs = [];
    for (const unit of units) {
      for (const precision of precisions) {
        const settings = settingsOf(device, unit, precision);
        runs.push({ settings, networks: listed.signature, found: stamped(await measure(settings, listed.signature, ROUNDS)) });
      }
    }
    state.runs = runs;
    if (!Object.keys(latencies()).length) throw new Error(`no network ran here: ${runs[0].found[0].error}`);
    showMeasured();
    $("results").hidden = false;
    $("measured-title").focus();
  } catch (problem) {
    said(problem);
  } finally {
    $("start").disabled = false;
  }
}

function said(problem) {
  $("problem").textContent = problem instanceof Cancelled ? "Cancelled; nothing was sent." : `Something went wrong: ${problem.message}`;
  $("start").disabled = false;
  $("start").focus();
}

function showMeasured() {
  $("problem").textContent = "";
  const rows = state.runs.flatMap((run) =>
    run.found.map((item, index) => {
      const { unit, precision } = run.settings;
      const texts = item.error
        ? [run.networks[index].name, unit, precision, "failed", "", item.error]
        : [run.networks[index].name, unit, precision, shown(median(item.runs)), percent(quartileVariation(item.runs)), item.runs.length];
      const row = cells(texts);
      if (variation(item) > WIDE) row.className = "warning";
      return row;
    }),
  );
  $("measured").replaceChildren(...rows);
  const count = wide().length;
  $("spread").hidden = !count && !state.hidden;
  const networks = count === 1 ? "1 latency varies" : `${count} latencies vary`;
  $("spread-text").textContent =
    (count ? `${networks} by more than ${100 * WIDE} %: something else was running, or the device was hot. ` : "") +
    (state.hidden ? "This page was hidden meanwhile, and browsers slow hidden pages down. " : "") +
    "Plug the device in, close what else runs, and try again.";
  state.asked = false;
  $("send").textContent = "Send";
  $("where").textContent = location.host;
  $("platform").textContent = state.runs.map((run) => run.settings.platform).join(", ");
  $("content").textContent = records().map((line) => JSON.stringify(JSON.parse(line), null, 1)).join("\n");
}

// Runs again what varied (all of it where the page was hidden) and keeps what varies less.
async function again() {
  const all = state.hidden;
  state.hidden = false;
  try {
    for (const run of state.runs) {
      const places = run.found.map((item, index) => index).filter((index) => all || variation(run.found[index]) > WIDE);
      if (!places.length) continue;
      const found = stamped(await measure(run.settings, places.map((index) => run.networks[index]), ROUNDS));
      found.forEach((item, index) => {
        const place = places[index];
        if (!item.error && (all || variation(item) < variation(run.found[place]))) run.found[place] = item;
      });
    }
  } catch (problem) {
    said(problem);
  }
  showMeasured();
  $("measured-title").focus();
}

async function send() {
  const count = wide().length;
  if (count && !state.asked) {
    state.asked = true;
    $("answer").textContent = `${count} of them vary by more than ${100 * WIDE} %. Measure those again, or press the button once more to send them as they are.`;
    $("send").textContent = "Send as they are";
    return;
  }
  $("send").disabled = true;
  $("answer").textContent = "Sending …";
  try {
    const body = `${records().join("\n")}\n`;
    const headers = { "content-type": "application/x-ndjson", authorization: `Bearer ${$("token").value.trim()}` };
    const answer = await json("/api/measurements", { method: "POST", headers, body });
    const held = answer.quarantined.map((item) => ` ${item.network}: held back, ${item.reason}.`).join("");
    $("answer").textContent = `Thank you: ${answer.accepted} measurements accepted.${held}`;
    await predict();
  } catch (problem) {
    $("answer").textContent = `Not sent: ${problem.message}`;
    $("send").disabled = false;
    $("send").focus();
  }
}

async function predict() {
  const body = JSON.stringify({ measured: latencies() });
  for (let attempt = 0; ; attempt += 1) {
    try {
      const answer = await json("/api/predict", { method: "POST", headers: { "content-type": "application/json" }, body });
      state.predictions = answer.predictions.filter((item) => item.latency_ms !== null).sort((a, b) => a.latency_ms - b.latency_ms);
      const missing = answer.predictions.filter((item) => item.reason !== null);
      const left = missing.length ? ` ${missing.length} networks are not predicted; of ${missing[0].name}: ${missing[0].reason}.` : "";
      $("model").textContent = `For ${state.runs[0].settings.platform}, by version ${answer.model} of the hub's model.${left}`;
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
  $("predicted-title").focus();
}

function showPredictions(measured) {
  $("predicted").replaceChildren(
    ...state.predictions.slice(0, 200).map((item) => {
      const real = measured[item.key];
      const off = real ? percent(item.latency_ms / real - 1) : "";
      return cells([item.name, shown(item.latency_ms), `${shown(item.low_ms)} – ${shown(item.high_ms)}`, real ? shown(real) : "", off]);
    }),
  );
}

async function check() {
  $("check").disabled = true;
  try {
    const known = new Map(state.predictions.map((item) => [item.key, item.latency_ms]));
    const networks = state.check.filter((item) => known.has(item.key));
    const found = await measure(state.runs[0].settings, networks, ROUNDS);
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
    $("checked").textContent = problem instanceof Cancelled ? "Cancelled." : `Something went wrong: ${problem.message}`;
  } finally {
    $("check").disabled = false;
    $("check").focus();
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
  $("cancel").addEventListener("click", () => state.cancel?.());
  $("again").addEventListener("click", again);
  $("send").addEventListener("click", send);
  $("keep").addEventListener("click", predict);
  $("check").addEventListener("click", check);
}
