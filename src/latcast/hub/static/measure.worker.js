// Runs networks and times them, away from the page, which stays usable meanwhile.

const MIN_RUNS = 8;
const MAX_RUNS = 40;
const ROUND_MS = 600;
const WARM_UP_MS = 250;

let ort = null;

async function load(settings) {
  const file = settings.provider === "webgpu" ? "ort.webgpu.min.mjs" : "ort.wasm.min.mjs";
  ort = await import(new URL(file, settings.base).href);
  ort.env.wasm.wasmPaths = settings.base;
  // Fetched here, so that the browser holds it to the hash that the page came with.
  const wasm = await fetch(new URL(settings.wasm.name, settings.base), { integrity: settings.wasm.integrity });
  ort.env.wasm.wasmBinary = await wasm.arrayBuffer();
  ort.env.wasm.numThreads = settings.threads;
  ort.env.logLevel = "error";
}

async function fetched(network, precision) {
  const integrity = network.integrity[precision] ?? ""; // none where the file is made for this request
  const answer = await fetch(`/api/networks/${network.key}/onnx?precision=${precision}`, { integrity });
  if (!answer.ok) throw new Error(`network ${network.key}: the server answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

// Ordinary numbers: zeros or subnormal ones could be quicker or slower than what networks really see.
function inputs(session) {
  const feeds = {};
  for (const input of session.inputMetadata) {
    if (input.type !== "float32") throw new Error(`input ${input.name} is ${input.type}`);
    const size = input.shape.reduce((product, length) => product * length, 1);
    const values = new Float32Array(size);
    for (let index = 0; index < size; index += 1) values[index] = ((index * 2654435761) % 1000) / 500 - 1;
    feeds[input.name] = new ort.Tensor("float32", values, input.shape);
  }
  return feeds;
}

async function timed(session, feeds) {
  const begun = performance.now();
  const outputs = await session.run(feeds);
  for (const output of Object.values(outputs)) await output.getData();
  return performance.now() - begun;
}

// One round of one network: warm up, then enough runs.
async function round(session, feeds) {
  let warmUps = 0;
  for (let spent = 0; warmUps < 2 || (spent < WARM_UP_MS && warmUps < 20); warmUps += 1) spent += await timed(session, feeds);
  const runs = [];
  for (let spent = 0; runs.length < MIN_RUNS || (spent < ROUND_MS && runs.length < MAX_RUNS);) {
    const took = await timed(session, feeds);
    runs.push(took);
    spent += took;
  }
  return { warmUps, runs };
}

async function measure(settings) {
  await load(settings);
  const found = settings.networks.map(() => ({ runs: [], rounds: [], warmUps: 0, error: null }));
  const steps = settings.networks.length * settings.rounds;
  let done = 0;
  // Round after round over all networks, so that a slow moment of the device does not hit one network alone.
  for (let index = 0; index < settings.rounds; index += 1) {
    for (let which = 0; which < settings.networks.length; which += 1) {
      const network = settings.networks[which];
      const into = found[which];
      postMessage({ kind: "progress", share: done / steps, name: network.name });
      done += 1;
      if (into.error) continue;
      try {
        const session = await ort.InferenceSession.create(await fetched(network, settings.precision), {
          executionProviders: [settings.provider],
          graphOptimizationLevel: "all",
        });
        try {
          const { warmUps, runs } = await round(session, inputs(session));
          into.warmUps = warmUps;
          into.runs.push(...runs);
          into.rounds.push(...runs.map(() => index));
        } finally {
          await session.release();
        }
      } catch (problem) {
        into.error = String(problem.message || problem).slice(0, 500);
      }
    }
  }
  postMessage({ kind: "done", found });
}

onmessage = (event) => {
  measure(event.data).catch((problem) => postMessage({ kind: "failed", text: String(problem.message || problem) }));
};
