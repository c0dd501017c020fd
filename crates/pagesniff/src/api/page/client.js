// Speaks to the daemon: requests with the token, what went wrong in words, and another try after a pause that grows.

const KEPT = "pagesniff-token";

// How long an answer may take that is no stream; the daemon itself gives its threads two seconds.
const PATIENCE_MS = 15000;

// Live figures come once a second: after so long without any the connection is dead.
const SILENCE_MS = 10000;

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30000;

export class Refusal extends Error {
  constructor(status, message, waitS) {
    super(message);
    Object.assign(this, { status, waitS: waitS > 0 ? waitS : 0 });
  }
}

// Where a browser keeps nothing, the token lasts as long as the page.
const storage = (work) => {
  try {
    return work(sessionStorage);
  } catch {
    return null;
  }
};

let token = storage((kept) => kept.getItem(KEPT));

export const hasToken = () => token !== null;

export const setToken = (text) => {
  token = text;
  storage((kept) => (text === null ? kept.removeItem(KEPT) : kept.setItem(KEPT, text)));
};

const send = async (method, path, { body, signal } = {}) => {
  const headers = {};
  if (token !== null) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  const options = { method, headers, body: body && JSON.stringify(body), signal };
  let answer;
  try {
    answer = await fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the daemon does not answer");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  const wait = Number(answer.headers.get("retry-after"));
  throw new Refusal(answer.status, said?.msg ?? `the daemon answers ${answer.status}`, wait);
};

// What is no stream has to come in time.
const withPatience = (signal) => AbortSignal.any([AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])]);

export const ask = async (method, path, { body, signal } = {}) => {
  const answer = await send(method, path, { body, signal: withPatience(signal) });
  return answer.status === 204 ? null : answer.json();
};

// A report takes as long as it takes: its reader can end it.
export const askText = async (path, signal) => (await send("GET", path, { signal })).text();

// Server-sent events. `EventSource` cannot send the token.
export async function* events(path, signal) {
  const silence = new AbortController();
  const bark = () => silence.abort();
  let watchdog = setTimeout(bark, SILENCE_MS);
  try {
    const answer = await send("GET", path, { signal: AbortSignal.any([signal, silence.signal]) });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(bark, SILENCE_MS);
      const whole = (text + value).split("\n\n");
      text = whole.pop();
      for (const event of whole) if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  } catch (error) {
    if (signal.aborted || error instanceof Refusal) throw error;
    throw new Refusal(0, "the daemon does not answer");
  } finally {
    clearTimeout(watchdog);
  }
}

// Downloads from where it was cut off, as long as the daemon has it.
export const download = async (path, { signal, progress }) => {
  const pieces = [];
  let [had, all] = [0, 0];
  for (let failures = 0; ; failures++) {
    try {
      const answer = await send("GET", had > 0 ? `${path}?cursor=${had}` : path, { signal });
      all = had + Number(answer.headers.get("content-length"));
      const reader = answer.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        pieces.push(value);
        had += value.length;
        failures = 0;
        progress(had, all);
      }
      if (had >= all) return new Blob(pieces, { type: "application/x-tar" });
    } catch (error) {
      if (signal.aborted || (error instanceof Refusal && error.status !== 0)) throw error;
      if (failures >= 5) throw new Refusal(0, `cut off after ${had} of ${all} bytes`);
    }
    await pause(pauseAfter(failures), signal);
  }
};

export const pauseAfter = (failures, waitS = 0) => {
  const grown = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  // Pages that lost the daemon at once do not come back at once.
  return Math.max(grown * (0.8 + 0.4 * Math.random()), waitS * 1000);
};

export const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("ended", "AbortError"));
    });
  });
