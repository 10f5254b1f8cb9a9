// Asking the server: JSON in, JSON out; refusals with their reason; heavy jobs with progress and a way to stop them.

export class Refused extends Error {
  constructor(told, status) { super(told.message || `HTTP ${status}`); this.code = told.code || "failed"; this.values = told.values || {}; this.status = status; }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export async function ask(path, body, { signal } = {}) {
  for (let tries = 0; ; tries++) {
    let answer;
    try {
      answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
    } catch (error) {
      if (error.name === "AbortError") throw new Refused({ code: "cancelled", message: "cancelled" }, 0);
      throw new Refused({ code: "gone", message: String(error) }, 0);
    }
    if (answer.ok) return answer.json();
    const told = await answer.json().catch(() => ({}));
    if (answer.status === 503 && tries < 5) { await pause(1000 * Math.min(10, Number(answer.headers.get("Retry-After")) || 1)); continue; }
    throw new Refused(told, answer.status);
  }
}

export async function get(path) {
  const answer = await fetch(path).catch((error) => { throw new Refused({ code: "gone", message: String(error) }, 0); });
  if (!answer.ok) throw new Refused(await answer.json().catch(() => ({})), answer.status);
  return answer.json();
}

// A heavy job: { done: promise, cancel() }. onProgress gets { state, before, share } until it ends.
export function job(path, body, onProgress = () => {}) {
  const name = crypto.randomUUID(), stop = new AbortController();
  let running = true;
  const done = ask(`${path}?job=${name}`, body, { signal: stop.signal }).finally(() => { running = false; });
  (async () => {
    await pause(150);
    while (running) {
      try { const told = await get(`/api/jobs/${name}`); if (running && told.state !== "absent") onProgress(told); } catch { /* the answer itself will tell */ }
      await pause(300);
    }
  })();
  return { done, cancel() { fetch(`/api/jobs/${name}`, { method: "DELETE" }).catch(() => {}); stop.abort(); } };
}

// The newest question only: while one is being answered, of those that follow the last alone is asked next.
export function latest(run) {
  let busy = false, waiting = null;
  return async function next(...given) {
    if (busy) { waiting = given; return; }
    busy = true;
    try { await run(...given); } finally {
      busy = false;
      if (waiting) { const again = waiting; waiting = null; next(...again); }
    }
  };
}
