// "Your model": strips the weights off a file, asks how long it takes on all platforms, and shows that.

const $ = (id) => document.getElementById(id);
const page = $("model");
const PORTION = 50; // devices that are shown at first
const FEW = 3; // devices whose platforms are all shown
const CHARTED = 600;
const LABEL = 60; // pixels that a label of the axis takes with the gap to the next

const PAUSE = 300; // milliseconds without a keystroke before the server is asked what a name means

// meant: the platforms that the search names, null where nothing is searched for.
const state = { source: null, found: null, shown: PORTION, chosen: [], meant: null };

const milliseconds = (ms) => (ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms >= 1 ? ms.toFixed(2) : ms.toFixed(3));
const flops = (count) => (count >= 1e9 ? `${(count / 1e9).toPrecision(3)} GFLOPs` : `${(count / 1e6).toPrecision(3)} MFLOPs`);

function element(tag, properties = {}, ...children) {
  const found = document.createElement(tag);
  Object.assign(found, properties);
  found.append(...children);
  return found;
}

function drawn(tag, attributes, ...children) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

function say(text, wrong = false) {
  $("state").textContent = text;
  $("state").classList.toggle("warning", wrong);
}

async function packed(data) {
  if (!self.CompressionStream) return [data, {}];
  const stream = new Blob([data]).stream().pipeThrough(new CompressionStream("gzip"));
  return [await new Response(stream).arrayBuffer(), { "content-encoding": "gzip" }];
}

// A source is {name, data} of a file, {name, model} of a published network, or {name, shared} of a link.
async function asked(extra, accept) {
  const { source } = state;
  const query = new URLSearchParams({ name: source.name.slice(0, 200), ...extra });
  for (const shape of $("shape").value.split(/\s+/).filter(Boolean)) query.append("shape", shape);
  const options = { method: "POST", headers: { accept } };
  if (source.data) {
    const [body, encoded] = await packed(source.data);
    options.body = body;
    Object.assign(options.headers, encoded, { "content-type": "application/octet-stream" });
  } else if (source.model) query.set("model", source.model);
  else query.set("shared", source.shared);
  const answer = await fetch(`/api/predict?${query}`, options);
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => ({}));
  throw new Error(typeof found.detail === "string" ? found.detail : `the server answered ${answer.status}`);
}

const ask = async (extra) => (await asked(extra, "application/json")).json();

// Yields the lines of an answer as they arrive.
async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n");
    rest = whole.pop();
    for (const line of whole) yield JSON.parse(line);
  }
}

async function predict(source) {
  state.source = source;
  page.ariaBusy = "true";
  say(`Predicting ${source.name} …`);
  try {
    const answer = await asked({}, "application/x-ndjson");
    state.shown = PORTION;
    state.meant = null;
    const found = { predictions: [] };
    for await (const { predictions, ...facts } of lines(answer)) {
      Object.assign(found, facts).predictions.push(...(predictions ?? []));
      state.found = found;
      $("results").hidden = false; // before anything is drawn into it: the axis needs its width
      showModel();
      offerFilters();
      show();
      say(`Predicting ${source.name} … ${found.predictions.length} platforms so far`);
    }
    if (found.not_predicted === undefined) throw new Error("the answer was cut off; ask again");
    if ($("find").value.trim()) await search();
    const rows = [...found.predictions].sort(ORDERS.fastest);
    say(`${source.name}: from ${milliseconds(rows[0].latency_ms)} to ${milliseconds(rows.at(-1).latency_ms)} ms on ${rows.length} platforms.`);
    $("title").focus();
  } catch (problem) {
    const dynamic = problem.message.match(/shape=(\S+=[\dx,]+)/);
    if (dynamic) {
      $("sizes").hidden = false;
      $("shape").value ||= dynamic[1];
      $("shape").focus();
    }
    say(problem.message, true);
  } finally {
    page.ariaBusy = "false";
  }
}

function showModel() {
  const { model, not_predicted: left } = state.found;
  const inputs = model.inputs.map((input) => `${input.name} ${input.shape.join("×")}`).join(", ");
  $("title").textContent = model.name;
  $("facts").textContent =
    `${inputs}; ${model.operators} operators, ${(model.parameters / 1e6).toPrecision(3)} million parameters, ${flops(model.flops)}.` +
    (left ? ` ${left} further platform${left === 1 ? "" : "s"} had no answer in time.` : "");
  $("link").replaceChildren();
  $("share").hidden = Boolean(state.source.shared);
}

function offerFilters() {
  const rows = state.found.predictions;
  const parts = rows.map((row) => row.platform.split("/"));
  const offer = (id, values) => {
    const select = $(id);
    const before = select.value;
    select.replaceChildren(select.options[0], ...[...new Set(values)].sort().map((value) => new Option(value, value)));
    select.value = before;
    if (select.selectedIndex < 0) select.selectedIndex = 0;
  };
  offer("kind", rows.map((row) => row.kind));
  offer("runtime", parts.map((each) => each[1].replace(/-[^-]*$/, "")));
  offer("precision", parts.map((each) => each[3]));
  offer("source", rows.map((row) => SOURCES[row.source]));
}

const SOURCES = { hub: "this hub", shipped: "latcast", user: "this server", chip: "its chip" };

// Where what is known of a platform comes from; nothing of those that come with latcast, which are nearly all.
function origin(row) {
  if (row.source === "shipped") return "";
  if (row.source !== "hub") return `from ${SOURCES[row.source]}`;
  const networks = `${row.networks} network${row.networks === 1 ? "" : "s"}`;
  return `${networks} measured on this hub${row.trusted ? "" : ", by strangers"}`;
}

const ORDERS = {
  fastest: (a, b) => a.latency_ms - b.latency_ms,
  slowest: (a, b) => b.latency_ms - a.latency_ms,
  surest: (a, b) => Math.log(a.high_ms / a.low_ms) - Math.log(b.high_ms / b.low_ms),
  name: (a, b) => a.platform.localeCompare(b.platform),
};

let searches = 0;

// Asks which platforms a name means: those that `latcast predict --on` takes.
async function search() {
  const text = $("find").value.trim();
  const mine = ++searches;
  let meant = null;
  if (text) {
    try {
      const answer = await fetch(`/api/named?${new URLSearchParams({ text })}`);
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.detail);
      const rows = found.from_chip.length ? (await ask({ on: text })).predictions : null;
      meant = { ...found, text, rows, wide: false };
    } catch (problem) {
      meant = { platforms: [], taken: [], note: problem.message, rows: [], wrong: true };
    }
  }
  if (mine !== searches) return; // another name was typed meanwhile
  state.meant = meant;
  state.shown = PORTION;
  show();
}

function searched() {
  const { meant, found } = state;
  if (!meant) return found.predictions;
  const ids = new Set(meant.wide ? meant.platforms : meant.taken);
  return meant.rows ?? found.predictions.filter((row) => ids.has(row.platform));
}

function show() {
  const { meant } = state;
  const [kind, runtime, precision, source] = ["kind", "runtime", "precision", "source"].map((id) => $(id).value);
  const budget = Number($("budget").value) || Infinity;
  const among = searched();
  state.chosen = among
    .filter((row) => {
      const [, itsRuntime, , itsPrecision] = row.platform.split("/");
      return (
        (!kind || row.kind === kind) &&
        (!runtime || itsRuntime.replace(/-[^-]*$/, "") === runtime) &&
        (!precision || itsPrecision === precision) &&
        (!source || SOURCES[row.source] === source) &&
        row.latency_ms <= budget
      );
    })
    .sort(ORDERS[$("order").value]);
  const byDevice = {};
  for (const row of state.chosen) (byDevice[row.device] ??= []).push(row);
  const devices = Object.values(byDevice);
  const shown = devices.slice(0, state.shown);
  const more = meant && !meant.wide ? meant.platforms.length - meant.taken.length : 0;
  const named = more > 0 ? `“${meant.text}” names ${meant.platforms.length} platforms; the best known of each unit are shown.` : "";
  const said = named || (meant?.rows ? meant.note : "");
  const all = state.chosen.length === among.length ? "" : `${state.chosen.length} of `;
  const count = `${all}${counted(among.length, "platform")} of ${counted(devices.length, "device")}`;
  const filtered = !meant || state.chosen.length < among.length;
  $("count").textContent = meant?.wrong ? said : [said, filtered || !said ? count : ""].filter(Boolean).join(" ");
  $("count").classList.toggle("warning", Boolean(meant?.wrong));
  $("widen").hidden = more <= 0;
  $("widen").textContent = `Show all ${meant?.platforms.length}`;
  $("plotted").hidden = $("axis").parentElement.hidden = !shown.length;
  const axis = new Axis(shown.flat());
  $("axis").replaceChildren(axis.labels());
  $("rows").replaceChildren(...shown.map((rows) => deviceItem(rows, axis, devices.length <= FEW)));
  $("more").hidden = devices.length <= shown.length;
}

const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

// The first platform of a device, and the others under it, drawn where they are opened.
function deviceItem([first, ...others], axis, open) {
  const found = element("li", {}, item(first, axis));
  if (!others.length) return found;
  const list = element("ul", { className: "rows inner" });
  const summary = element("summary", { className: "others" }, `${counted(others.length, "other platform")} of ${first.device}`);
  const details = element("details", { open: open || opened.has(first.device) }, summary, list);
  const fill = () => {
    if (details.open && !list.children.length) list.append(...others.map((row) => element("li", {}, item(row, axis))));
  };
  summary.addEventListener("click", () => opened[details.open ? "delete" : "add"](first.device)); // it is not toggled yet
  details.addEventListener("toggle", fill);
  fill();
  found.append(details);
  return found;
}

const opened = new Set(); // devices whose further platforms were opened

class Axis {
  constructor(rows) {
    const low = Math.min(...rows.map((row) => row.low_ms).filter((value) => value > 0), Infinity);
    const high = Math.max(...rows.map((row) => row.high_ms), 0);
    [this.low, this.high] = high > 0 && low < Infinity ? [low / 1.1, high * 1.1] : [1, 100];
  }

  x(ms) {
    const share = Math.log(Math.max(ms, 1e-9) / this.low) / Math.log(this.high / this.low);
    return (CHARTED * Math.min(Math.max(share, 0), 1)).toFixed(1);
  }

  // The finest of these steps of a decade whose labels do not touch.
  labels() {
    const width = $("axis").clientWidth || CHARTED;
    let ticks = [];
    for (const steps of [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      ticks = this.ticks(steps, width);
      if (ticks.every(({ at }, place) => !place || at - ticks[place - 1].at >= LABEL)) break;
    }
    const list = element("span", { className: "ticks" });
    let last = -Infinity;
    for (const { value, at } of ticks) {
      const left = Math.min(at, width - LABEL / 2);
      if (left - last < LABEL) continue; // a narrow screen and many decades, or the last before the edge
      last = left;
      const tick = element("span", {}, `${Number(value.toPrecision(2))} ms`);
      tick.style.left = `${left}px`;
      list.append(tick);
    }
    return list;
  }

  ticks(steps, width) {
    const found = [];
    for (let decade = Math.floor(Math.log10(this.low)); decade <= Math.log10(this.high); decade += 1) {
      for (const step of steps) {
        const value = step * 10 ** decade;
        if (value >= this.low && value <= this.high) found.push({ value, at: (Number(this.x(value)) / CHARTED) * width });
      }
    }
    return found;
  }
}

function item(row, axis) {
  const [device, runtime, unit, precision] = row.platform.split("/");
  const about = [runtime, unit, precision, row.chip, origin(row)].filter(Boolean).join(" · ");
  const name = element("div", { className: "name" }, element("strong", {}, device), " ", element("span", { className: "tag" }, row.kind));
  const { word, expected_error_pct: error, why } = row.grade;
  const grade = element("span", { className: word === "rough" ? "tag slow" : "tag" }, `${word}, ±${error.toFixed(error < 0.95 ? 1 : 0)} %`);
  grade.title = [why, ...row.warnings].join("; ");
  name.append(" ", grade);
  name.append(element("br"), element("small", {}, about));
  const figures = element("div", { className: "figures" });
  const level = row.level === null ? "uncalibrated" : `${row.level} %`;
  figures.append(element("strong", {}, `${milliseconds(row.latency_ms)} ms`), element("br"));
  figures.append(element("small", {}, `${milliseconds(row.low_ms)} – ${milliseconds(row.high_ms)} (${level})`));
  const chart = element("div", { className: "chart" });
  const svg = drawn(
    "svg",
    { class: "plot", viewBox: `0 0 ${CHARTED} 24`, "aria-hidden": "true", preserveAspectRatio: "none" },
    drawn("line", { x1: 0, x2: CHARTED, y1: 12, y2: 12, class: "rule" }),
    drawn("line", { x1: axis.x(row.low_ms), x2: axis.x(row.high_ms), y1: 12, y2: 12, class: "interval" }),
    drawn("line", { x1: axis.x(row.latency_ms), x2: axis.x(row.latency_ms), y1: 4, y2: 20, class: "mark" }),
  );
  chart.append(svg);
  const button = element("button", { type: "button", className: "small quiet" }, "Kernels");
  button.setAttribute("aria-label", `Kernels on ${row.platform}`);
  button.addEventListener("click", () => kernels(row, button));
  return element("div", { className: "row forecast" }, name, figures, chart, button);
}

async function kernels(row, button) {
  button.disabled = true;
  try {
    const found = await ask({ kernels: row.platform, top: 15 });
    const total = found.prediction.latency_ms || 1;
    const cells = (...contents) => element("tr", {}, ...contents.map((content) => element("td", {}, ...[content].flat())));
    $("which").textContent = `${state.found.model.name} on ${row.platform}`;
    $("sum").textContent =
      `${milliseconds(found.prediction.latency_ms)} ms, of which ${milliseconds(found.prediction.overhead_ms)} ms are no kernel's; ` +
      `the longest ${found.kernels.length} of ${found.all_kernels} kernels:`;
    $("kernels").replaceChildren(
      ...found.kernels.map((each) =>
        cells([each.name, element("br"), element("small", {}, each.kernel_type)], milliseconds(each.latency_ms), `${((100 * each.latency_ms) / total).toFixed(1)} %`, each.limit || "–"),
      ),
    );
    const warnings = found.prediction.warnings;
    $("warnings").textContent = warnings.join(" ");
    $("inside").showModal();
    $("inside").scrollTop = 0;
  } catch (problem) {
    say(problem.message, true);
  } finally {
    button.disabled = false;
  }
}

async function share() {
  $("share").disabled = true;
  try {
    const found = await ask({ share: true, on: state.found.predictions[0].platform });
    const url = new URL(found.link, location.href).href;
    const link = element("a", { href: url }, url);
    $("link").replaceChildren("Everybody with this link sees these latencies: ", link);
    link.focus();
  } catch (problem) {
    $("link").textContent = problem.message;
  } finally {
    $("share").disabled = false;
  }
}

async function take(file) {
  if (!file) return;
  $("sizes").hidden = true;
  $("shape").value = "";
  say(`Reading ${file.name} …`);
  try {
    const { stripped } = await import(page.dataset.strip);
    const whole = new Uint8Array(await file.arrayBuffer());
    await predict({ name: file.name, data: stripped(whole) });
  } catch (problem) {
    say(`${file.name} cannot be read: ${problem.message}`, true);
  }
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("published").value.trim();
  if (name) predict({ name, model: name });
  else if (state.source) predict(state.source);
  else say("Choose a file, or name a published network.", true);
});
$("file").addEventListener("change", () => {
  $("published").value = "";
  take($("file").files[0]);
});
for (const kind of ["dragover", "dragenter"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.add("over");
  });
}
document.addEventListener("dragleave", () => $("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  take(event.dataTransfer.files[0]);
});
let typing;
$("find").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, PAUSE);
});
$("widen").addEventListener("click", () => {
  state.meant.wide = true;
  show();
  $("find").focus();
});
for (const id of ["kind", "runtime", "precision", "source", "order", "budget"]) {
  $(id).addEventListener("input", () => {
    state.shown = PORTION;
    show();
  });
}
$("more").addEventListener("click", () => {
  const first = state.shown;
  state.shown += PORTION;
  show();
  $("rows").children[first]?.querySelector("button").focus(); // rows are of devices
});
$("share").addEventListener("click", share);
$("shut").addEventListener("click", () => $("inside").close());
if (page.dataset.shared) predict({ name: "shared model", shared: page.dataset.shared });
