// Requests to the studio's server: JSON in, JSON out; refusals with their reason; long jobs with progress and a way to cancel them.

const RETRIES = 5; // of a request refused because too many wait
const FIRST_POLL = 150; // milliseconds until a job's progress is first asked for
const POLL = 300;

// A request the server refused, or that did not reach it. code: a key of the texts' `refusals`; values: the numbers in its sentence.
export class Refused extends Error {
  constructor(body, status) {
    super(body.message || `HTTP ${status}`);
    this.code = body.code || "failed";
    this.values = body.values || {};
    this.status = status;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const unreachable = (error) => new Refused({ code: "gone", message: String(error) }, 0);

export async function post(path, body, { signal } = {}) {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  for (let tries = 0; ; tries++) {
    const response = await fetch(path, request).catch((error) => {
      throw error.name === "AbortError" ? new Refused({ code: "cancelled", message: "cancelled" }, 0) : unreachable(error);
    });
    if (response.ok) return response.json();
    const refusal = await response.json().catch(() => ({}));
    if (response.status !== 503 || tries >= RETRIES) throw new Refused(refusal, response.status);
    await pause(1000 * Math.min(10, Number(response.headers.get("Retry-After")) || 1));
  }
}

export async function get(path) {
  const response = await fetch(path).catch((error) => {
    throw unreachable(error);
  });
  if (!response.ok) throw new Refused(await response.json().catch(() => ({})), response.status);
  return response.json();
}

// A long job: { done: a promise of the answer, cancel() }. onProgress gets { state, before, share } until it ends.
export function job(path, body, onProgress = () => {}) {
  const name = crypto.randomUUID();
  const abort = new AbortController();
  let running = true;
  const done = post(`${path}${path.includes("?") ? "&" : "?"}job=${name}`, body, { signal: abort.signal }).finally(() => {
    running = false;
  });
  (async () => {
    await pause(FIRST_POLL);
    while (running) {
      const progress = await get(`/api/jobs/${name}`).catch(() => null); // an error of the job comes with its own answer
      if (progress && running && progress.state !== "absent") onProgress(progress);
      await pause(POLL);
    }
  })();
  const cancel = () => {
    fetch(`/api/jobs/${name}`, { method: "DELETE" }).catch(() => {});
    abort.abort();
  };
  return { done, cancel };
}

// A function that runs one call at a time; of the calls made meanwhile only the last is run afterwards.
export function latest(run) {
  let busy = false;
  let waiting = null; // the arguments of the next call
  return async function next(...args) {
    if (busy) {
      waiting = args;
      return;
    }
    busy = true;
    try {
      await run(...args);
    } finally {
      busy = false;
      const again = waiting;
      waiting = null;
      if (again) next(...again);
    }
  };
}
