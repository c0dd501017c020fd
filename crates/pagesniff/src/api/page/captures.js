// Captures and snapshots: to begin, watch, download, read and delete them.

import { ask, download } from "./client.js";
import { openReport } from "./report.js";
import { Task } from "./tasks.js";
import { $, Rows, count, el, length, plural, say, size, span, time } from "./text.js";

const OFTEN_MS = 1000;
const SELDOM_MS = 10000;

// Lengths to choose from, in seconds, as far as the token allows them.
const LENGTHS_S = [10, 30, 60, 300, 900, 3600, 21600, 86400];
const PASTS_S = [60, 300, 600, 1800, 3600, 21600];

const STATES = { running: "runs", done: "done", failed: "failed", interrupted: "interrupted", snapshot: "kept" };

// How many requests a snapshot has is said when it is taken only.
const requestsOf = new Map();
let task = null;
let states = new Map();

export const begin = (caller) => {
  const may = { captures: caller.reports.includes("captures"), snapshots: caller.reports.includes("snapshots") };
  document.querySelectorAll("#capture-form [data-for]").forEach((element) => (element.hidden = !may[element.dataset.for]));
  $("capture-form").hidden = !may.captures && !may.snapshots;
  const missing = [
    [may.captures, "to start captures and to read their reports"],
    [may.snapshots, "to keep the past"],
  ].filter(([may]) => !may);
  $("captures-note").hidden = missing.length === 0;
  say($("captures-note"), `This token is not for this: ${missing.map(([, what]) => what).join(", ")}.`);
  const lengths = LENGTHS_S.filter((seconds) => seconds <= caller.max_duration_secs);
  choose($("capture-for"), lengths.length > 0 ? lengths : [caller.max_duration_secs], 30);
  choose($("capture-last"), PASTS_S, 600);
  mayRead = may.captures;
  task = new Task(look);
};

let mayRead = false;

export const end = () => {
  [states, task] = [new Map(), null];
  requestsOf.clear();
  table.show([], (one) => one.id);
  say($("capture-problem"), "");
  $("capture-form").reset();
};

export const prepare = (tenant) => {
  $("capture-tenant").value = tenant;
  $("captures").scrollIntoView({ block: "nearest" });
  const first = [$("capture-for"), $("capture-last")].find((choice) => choice.offsetParent !== null);
  first?.focus();
};

const choose = (select, seconds, usual) => {
  const option = (value) => el("option", { value, selected: value === usual }, length(value));
  select.replaceChildren(...seconds.map(option));
};

const look = async (signal) => {
  const [captures, kept] = await Promise.all(["v1/captures", "v1/snapshots"].map((path) => ask("GET", path, { signal })));
  captures.forEach(tell);
  const shown = [...kept.map(snapshot), ...captures].sort((one, other) => other.started_ns - one.started_ns);
  table.show(shown, (one) => one.id);
  $("captures-none").hidden = shown.length > 0;
  $("capture-rows").hidden = shown.length === 0;
  return captures.some((capture) => capture.state === "running") ? OFTEN_MS : SELDOM_MS;
};

const snapshot = ({ id, tenant, taken_ns, bytes, trigger }) => {
  const filter = trigger === null ? "out of the flight recorder" : `by the trigger ${trigger}`;
  const common = { state: "snapshot", filter, lost_requests: null, problem: null };
  return { ...common, id, tenants: tenant === null ? [] : [tenant], started_ns: taken_ns, bytes, requests: requestsOf.get(id) ?? null };
};

// Who listens to the page is told what changes.
const tell = (capture) => {
  const before = states.get(capture.id);
  states.set(capture.id, capture.state);
  if (before === "running" && capture.state !== "running") {
    const made = capture.state === "done" ? `has ended: ${plural(capture.requests, "request")}` : STATES[capture.state];
    say($("news"), `The capture of ${whose(capture)} ${made}.`);
  }
};

const whose = (capture) => (capture.tenants.length > 0 ? capture.tenants.join(", ") : "every tenant");

const button = (text, act, more) => el("button", { type: "button", onclick: act, ...more }, text);

const table = new Rows(
  document.querySelector("#capture-rows tbody"),
  (capture) => {
    const progress = el("progress", { max: 1, hidden: true });
    const state = el("td", null, el("span", { class: "state" }), el("small"), progress);
    const name = el("th", { scope: "row" }, el("span", { class: "id" }, whose(capture)), el("small"));
    const problem = el("small", { class: "bad" });
    name.append(problem);
    const acts = el("td", { class: "acts" });
    const figures = ["requests:", "size:", "left out:"].map((name) => el("td", { class: "n", "data-name": name }));
    const row = el("tr", null, state, name, el("td", null, time(capture.started_ns)), ...figures, acts);
    Object.assign(row, { progress, problem, acts, figures });
    return row;
  },
  (row, capture) => {
    const [state, left] = row.cells[0].querySelectorAll("span, small");
    state.className = `state ${capture.state === "snapshot" ? "done" : capture.state}`;
    say(state, STATES[capture.state]);
    const isRunning = capture.state === "running";
    const gone = Date.now() - capture.started_ns / 1e6;
    say(left, isRunning ? `${span(capture.duration_ms - gone)} left` : "");
    if (!row.isBusy) row.progress.hidden = !isRunning;
    if (isRunning) progressOf(row, gone / capture.duration_ms, "How much of the capture is over");
    const filter = capture.filter.replace(/--tenant \S+ ?/g, "");
    say(row.cells[1].children[1], filter);
    if (capture.problem) say(row.problem, capture.problem);
    const known = (show, value) => (isRunning || value === null ? "" : show(value));
    const { requests, bytes, lost_requests: lost } = capture;
    const figures = [known(count, requests), known(size, bytes), known(count, lost)];
    row.figures.forEach((cell, place) => say(cell, figures[place]));
    if (row.acts.dataset.state !== capture.state) {
      row.acts.dataset.state = capture.state;
      row.acts.replaceChildren(...acts(row, capture));
    }
  },
);

const progressOf = (row, part, label) => {
  row.progress.value = Math.max(0, Math.min(1, part));
  row.progress.setAttribute("aria-label", label);
};

const acts = (row, capture) => {
  const name = `of ${whose(capture)}, ${time(capture.started_ns)}`;
  const named = (what) => ({ "aria-label": `${what} ${name}` });
  const isSnapshot = capture.state === "snapshot";
  const remove = (what) => button(what, () => sureToDelete(row, capture), { class: "danger", ...named(what) });
  if (!mayRead) return [];
  if (capture.state === "running") return [remove("End and delete")];
  const report = button("Report", (event) => openReport(capture.id, whose(capture), event.target), named("Report"));
  const fetch = button("Download", (event) => save(row, capture, event.target), named("Download"));
  return [report, fetch, ...(isSnapshot ? [] : [remove("Delete")])];
};

const sureToDelete = (row, capture) => {
  const files = capture.state === "running" ? "What it has so far" : "Its files";
  say($("sure-text"), `Delete the capture of ${whose(capture)}? ${files} cannot be brought back.`);
  $("sure").returnValue = "no";
  $("sure").onclose = async () => {
    if ($("sure").returnValue !== "yes") return;
    try {
      await ask("DELETE", `v1/captures/${encodeURIComponent(capture.id)}`);
      say($("news"), "The capture is deleted.");
      $("captures-title").focus();
    } catch (error) {
      say(row.problem, `It is not deleted: ${error.message}.`);
    }
    task.now();
  };
  $("sure").showModal();
};

const save = async (row, capture, pressed) => {
  pressed.disabled = row.isBusy = true;
  row.progress.hidden = false;
  say(row.problem, "");
  progressOf(row, 0, "How much is downloaded");
  try {
    const progress = (had, all) => progressOf(row, had / all, "How much is downloaded");
    const path = `v1/captures/${encodeURIComponent(capture.id)}/trace`;
    const file = await download(path, { signal: new AbortController().signal, progress });
    const address = URL.createObjectURL(file);
    el("a", { href: address, download: `${capture.id}.tar` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    say($("news"), `Downloaded: ${capture.id}.tar, ${size(file.size)}.`);
  } catch (error) {
    say(row.problem, `It is not downloaded: ${error.message}.`);
  }
  pressed.disabled = row.isBusy = false;
  row.progress.hidden = true;
  pressed.focus();
};

const texts = (id) => {
  const text = $(id).value.trim();
  return text === "" ? [] : [text];
};

const number = (id, factor) => ($(id).value === "" ? null : Math.round(Number($(id).value) * factor));

const wantedCapture = () => ({
  tenant: texts("capture-tenant"),
  duration_ms: Number($("capture-for").value) * 1000,
  timeline: texts("capture-timeline"),
  rel: texts("capture-rel"),
  client: texts("capture-client"),
  kind: texts("capture-kind"),
  min_latency_ns: number("capture-latency", 1e6),
  sample_one_in: number("capture-sample", 1),
  max_bytes: number("capture-bytes", 1048576),
});

$("capture-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const isSnapshot = event.submitter?.value === "snapshots";
  const pressed = event.submitter;
  if (pressed) pressed.disabled = true;
  say($("capture-problem"), "");
  try {
    if (isSnapshot) await keep($("capture-tenant").value.trim(), Number($("capture-last").value) * 1000);
    else await ask("POST", "v1/captures", { body: wantedCapture() });
    if (!isSnapshot) say($("news"), "The capture runs.");
  } catch (error) {
    say($("capture-problem"), `${isSnapshot ? "Nothing is kept" : "No capture is started"}: ${error.message}.`);
  }
  if (pressed) {
    pressed.disabled = false;
    pressed.focus();
  }
  task?.now();
});

const keep = async (tenant, lastMs) => {
  const taken = await ask("POST", "v1/snapshots", { body: { tenant, last_ms: lastMs } });
  requestsOf.set(taken.id, taken.requests);
  say($("news"), `Kept: ${plural(taken.requests, "request")}.`);
};
