// Who it is, and what of the daemon is shown to that one.

import { ask, hasToken, setToken } from "./client.js";
import * as captures from "./captures.js";
import * as live from "./live.js";
import { Task, stopAll, whenUnknown } from "./tasks.js";
import { $, Rows, count, el, notes, plural, rate, say, size, span, tiles } from "./text.js";

// Each look leaves a line in the daemon's audit log, so they are no more than a reader needs.
const LOOK_MS = 3000;

// More rows than anybody reads; the filter finds the rest.
const MOST_ROWS = 100;

let caller = null;
let overview = null;
let connections = null;
let tenants = [];
let before = new Map();
let beforeWorkers = null;

const showDoor = (message) => {
  stopAll();
  live.stop();
  captures.end();
  [caller, overview, connections, tenants, before, beforeWorkers] = [null, null, null, [], new Map(), null];
  tenantTable.show([], keyOf);
  connectionTable.show([], (one) => one.client + one.server);
  $("known-tenants").replaceChildren();
  $("filter").value = "";
  tiles($("tiles"), []);
  notes($("daemon-notes"), []);
  say($("daemon"), "");
  $("inside").hidden = true;
  $("leave").hidden = true;
  $("door").hidden = false;
  say($("state-text"), "waits for a token");
  delete document.body.dataset.state;
  say($("door-problem"), message ?? "");
  $("token").focus();
};

const enter = () => {
  $("door").hidden = true;
  overview = new Task(arrive);
};

// First who it is, then the figures.
const arrive = async (signal) => {
  caller = await ask("GET", "v1/caller", { signal });
  $("leave").hidden = !hasToken();
  $("inside").hidden = false;
  const isLive = caller.reports.includes("live");
  $("live").hidden = !isLive;
  document.querySelector(".columns").classList.toggle("one", !isLive);
  captures.begin(caller);
  openConnections();
  overview.work = look;
  return 0;
};

const look = async (signal) => {
  const asked = [ask("GET", "v1/tenants", { signal }), caller.is_admin ? ask("GET", "v1/status", { signal }) : null];
  const [now, status] = await Promise.all(asked);
  showTenants(now);
  showDaemon(status);
  return LOOK_MS;
};

const keyOf = (tenant) => `${tenant.tenant}/${tenant.timeline}`;

const showTenants = (now) => {
  const at = performance.now();
  tenants = now.map((tenant) => {
    const earlier = before.get(keyOf(tenant));
    const perS = earlier && ((tenant.requests - earlier.requests) / (at - earlier.at)) * 1000;
    // A daemon that was started again counts from the beginning.
    return { ...tenant, perS: perS >= 0 ? perS : null };
  });
  before = new Map(now.map((tenant) => [keyOf(tenant), { requests: tenant.requests, at }]));
  tenants.sort((one, other) => (other.perS ?? 0) - (one.perS ?? 0) || other.requests - one.requests);
  $("known-tenants").replaceChildren(...[...new Set(now.map((tenant) => tenant.tenant))].slice(0, 1000).map((value) => el("option", { value })));
  filterTenants();
};

const filterTenants = () => {
  const wanted = $("filter").value.trim().toLowerCase();
  const found = tenants.filter((tenant) => keyOf(tenant).includes(wanted));
  tenantTable.show(found.slice(0, MOST_ROWS), keyOf);
  const more = found.length - MOST_ROWS;
  const none = tenants.length === 0 ? "No tenant has been seen yet." : `None of ${plural(tenants.length, "tenant")} has that.`;
  const shown = more > 0 ? `${count(more)} more: those with the most requests are shown. Filter to find others.` : "";
  say($("tenants-note"), found.length === 0 ? none : shown);
};

const tenantTable = new Rows(
  document.querySelector("#tenants tbody"),
  (tenant) => {
    const watch = el("button", { type: "button", "aria-pressed": "false", "aria-label": `Watch ${tenant.tenant}` }, "Watch");
    watch.addEventListener("click", () => {
      if (live.isWatched(tenant.tenant, tenant.timeline)) return live.stop();
      live.watch(tenant.tenant, tenant.timeline);
      // Where it stands below, it is looked for there; the focus stays.
      $("live").scrollIntoView({ block: "nearest" });
    });
    const capture = el("button", { type: "button", "aria-label": `Capture ${tenant.tenant}` }, "Capture");
    capture.addEventListener("click", () => captures.prepare(tenant.tenant));
    watch.hidden = !caller.reports.includes("live");
    capture.hidden = !["captures", "snapshots"].some((report) => caller.reports.includes(report));
    const name = el("th", { scope: "row", class: "id" }, tenant.tenant, el("small", null, tenant.timeline));
    const figures = [el("td", { class: "n" }, el("span"), el("small")), el("td", { class: "n opt" })];
    return el("tr", null, name, ...figures, el("td", { class: "acts" }, watch, capture));
  },
  (row, tenant) => {
    // Where the flight recorder is off, only what is watched or captured is counted: none counted is not none.
    say(row.cells[1].children[0], tenant.perS ? rate(tenant.perS) : "–");
    say(row.cells[1].children[1], count(tenant.requests));
    say(row.cells[2], count(tenant.connections));
    const isWatched = live.isWatched(tenant.tenant, tenant.timeline);
    row.classList.toggle("on", isWatched);
    row.querySelector("button").setAttribute("aria-pressed", String(isWatched));
  },
);

live.whenWatched(filterTenants);
$("filter").addEventListener("input", filterTenants);

const sum = (workers, of) => workers.reduce((all, worker) => all + of(worker), 0);

const LOSSES = [
  ["kernel_dropped", "packets dropped by the kernel"],
  ["interface_dropped", "packets dropped by the interface"],
  ["lost_requests", "requests missing"],
  ["lost_responses", "answers missing"],
  ["evicted_connections", "connections forgotten for want of memory"],
  ["queue_dropped", "requests that the recorder had no room for"],
];

const showDaemon = (status) => {
  if (status === null) {
    say($("daemon"), "");
    return notes($("daemon-notes"), [["The daemon's own figures (packets, losses, memory) take a token with admin."]]);
  }
  const { workers } = status;
  const at = performance.now();
  const totals = { at, started: status.started_ns };
  ["requests", "packets", "wire_bytes"].forEach((name) => (totals[name] = sum(workers, (worker) => worker[name])));
  const earlier = beforeWorkers?.started === status.started_ns ? beforeWorkers : null;
  beforeWorkers = totals;
  const perS = (name, text) => (earlier ? text(Math.max(0, ((totals[name] - earlier[name]) / (at - earlier.at)) * 1000)) : "–");
  const lost = sum(workers, (worker) => LOSSES.reduce((all, [name]) => all + worker[name], 0));
  const unknown = status.unattributed_connections;
  say($("daemon"), `${status.instance} · ${status.version} · up ${span(Date.now() - status.started_ns / 1e6)}`);
  tiles($("tiles"), [
    ["Requests", `${perS("requests", rate)}/s`, `${count(totals.requests)} in all`],
    ["Packets", `${perS("packets", rate)}/s`, `${perS("wire_bytes", size)}/s`],
    ["Tenants", count(status.tenants), "connected"],
    ["Connections", count(status.connections), unknown > 0 ? `${count(unknown)} of unknown tenant` : ""],
    ["Lost", count(lost), lost > 0 ? "the reasons stand below" : "nothing, since the start", lost > 0],
    ["Memory", size(sum(workers, (worker) => worker.memory_bytes)), "of the decoders"],
  ]);
  notes($("daemon-notes"), [...troubles(status), ...remarks(status)]);
};

const troubles = ({ workers, recorder, checkpoint, reload }) => {
  const said = [];
  for (const worker of workers) {
    if (worker.problem) said.push(`${worker.interface}: nothing is captured: ${worker.problem}.`);
    const losses = LOSSES.filter(([name]) => worker[name] > 0).map(([name, what]) => `${count(worker[name])} ${what}`);
    if (losses.length > 0) said.push(`${worker.interface}, since the start: ${losses.join(", ")}.`);
  }
  if (recorder?.has_failed) said.push(`The flight recorder writes nothing at present, and tries again: ${recorder.problem}.`);
  if (checkpoint.problem) said.push(`The table of connections cannot be written: ${checkpoint.problem}.`);
  if (reload.refused) said.push(`The configuration was not read again, the one before holds: ${reload.refused}.`);
  return said.map((text) => [text, true]);
};

const remarks = ({ recorder, workers }) => {
  const said = [];
  if (recorder === null) {
    said.push("The flight recorder is off: requests are counted only of tenants that are watched or captured, and no past can be kept.");
  }
  if (recorder?.limit) said.push(`The flight recorder: ${recorder.limit}.`);
  const unattributed = sum(workers, (worker) => worker.unattributed);
  if (unattributed > 0) said.push(`${plural(unattributed, "request")} of unknown tenant: their connections were open before the daemon began.`);
  return said.map((text) => [text]);
};

const connectionTable = new Rows(
  document.querySelector("#connections tbody"),
  (one) => {
    const owner = one.tenant ? [one.tenant, el("small", null, one.timeline)] : ["not known"];
    const cells = [el("td", { class: "id" }, one.server), el("td", { class: "id" }, ...owner), el("td", null, one.attribution ?? "–")];
    const numbers = [one.protocol, one.backend_pid ?? "–"].map((value) => el("td", { class: "n" }, String(value)));
    return el("tr", null, el("th", { scope: "row", class: "id" }, one.client), ...cells, ...numbers);
  },
  () => {},
);

const lookAtConnections = async (signal) => {
  const now = await ask("GET", "v1/connections", { signal });
  const keyed = (one) => [one.client, one.server, one.tenant, one.timeline, one.protocol, one.backend_pid].join(" ");
  connectionTable.show(now.slice(0, MOST_ROWS), keyed);
  const more = now.length - MOST_ROWS;
  say($("connections-note"), more > 0 ? `${count(more)} more.` : now.length === 0 ? "None is open." : "");
  return LOOK_MS;
};

const openConnections = () => {
  connections?.stop();
  connections = $("connections").open && caller !== null ? new Task(lookAtConnections) : null;
};

$("connections").addEventListener("toggle", openConnections);

$("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("token").value.trim();
  // What no header may have is no token.
  if (!/^[\x21-\x7e]+$/.test(text)) return say($("door-problem"), "A token is one word of letters, digits and signs.");
  $("token").value = "";
  say($("door-problem"), "");
  setToken(text);
  enter();
});

const leave = (message) => {
  setToken(null);
  showDoor(message);
};

$("leave").addEventListener("click", () => leave());
whenUnknown((message) => leave(`${message.charAt(0).toUpperCase()}${message.slice(1)}.`));

if (document.documentElement.dataset.token === "yes" && !hasToken()) showDoor();
else enter();
