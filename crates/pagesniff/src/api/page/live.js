// One tenant's live figures, once a second.

import { events } from "./client.js";
import { Task } from "./tasks.js";
import { $, Rows, average, count, el, latency, notes, plural, rate, say, share, size, svg, tiles } from "./text.js";

// The classes as the report's charts put them together, in their order and colours.
const LAYERS = [
  ["first", (classes) => classes.first],
  ["redundant", (classes) => classes.redundant],
  ["in flight", (classes) => classes.in_flight],
  ["same content", (classes) => classes.same_content],
  ["changed, raced or contradicted", (classes) => classes.changed + classes.raced + classes.contradictions],
  ["unproven", (classes) => classes.unproven],
];

const NAMES = { rel: "Relation", key_range: "Key range, in blocks", client: "Client" };

let watched = null;
let task = null;
let onChange = () => {};

export const whenWatched = (listener) => (onChange = listener);

export const isWatched = (tenant, timeline) => watched?.tenant === tenant && watched?.timeline === timeline;

export const watch = (tenant, timeline) => {
  stop();
  watched = { tenant, timeline };
  $("live-note").hidden = false;
  say($("live-note"), "The first figures come in a moment.");
  say($("live-tenant"), `${tenant} / ${timeline}`);
  $("live-stop").hidden = false;
  task = new Task(follow);
  onChange();
};

export const stop = () => {
  task?.stop();
  [task, watched] = [null, null];
  table.show([], (row) => row.name);
  $("live-chart").replaceChildren();
  $("live-classes").replaceChildren();
  ["live-tenant", "live-chart-text", "live-loss", "live-notes"].forEach((id) => say($(id), ""));
  $("live-figures").hidden = true;
  $("live-stop").hidden = true;
  $("live-note").hidden = false;
  say($("live-note"), "Watch a tenant to see its rates, latencies and re-fetches, second by second.");
  onChange();
};

const by = () => document.querySelector("input[name=by]:checked").value;

const follow = async (signal, isWell) => {
  const asked = new URLSearchParams({ ...watched, by: by() });
  try {
    for await (const snapshot of events(`v1/live?${asked}`, signal)) {
      isWell();
      show(snapshot);
    }
  } catch (error) {
    // What is not this token's will not become so by asking again.
    if (![400, 403, 404].includes(error.status)) throw error;
    stop();
    say($("live-note"), `It cannot be watched: ${error.message}.`);
  }
  // Its time was over: another one begins.
  return 1000;
};

const show = (snapshot) => {
  const { total, capture, followed_one_in: oneIn } = snapshot;
  $("live-note").hidden = true;
  $("live-figures").hidden = false;
  const failed = total.errors + total.unanswered;
  tiles($("live-tiles"), [
    ["Requests/s", rate(total.requests_per_s)],
    ["Pages", `${size(total.page_bytes_per_s)}/s`],
    ["Redundant", redundant(total)],
    ["p50", latency(total.latency_ns.p50)],
    ["p99", latency(total.latency_ns.p99)],
    ["Longest", latency(total.latency_ns.max)],
    ["In flight", average(total.depth_mean), total.depth_max === null ? "" : `at most ${count(total.depth_max)}`],
    ["Failed", count(failed), "", failed > 0],
  ]);
  chart(snapshot.history);
  classes(total);
  loss(capture.loss);
  rows(snapshot.views[0]);
  const sample = oneIn > 1 ? [[`Re-fetches are those of one page in ${count(oneIn)}.`]] : [];
  notes($("live-notes"), [...sample, ...snapshot.notes.map((note) => [`${note}.`])]);
};

// Where nothing is known of any, "none" would be wrong.
const redundant = (figures) => {
  const compared = figures.getpage - figures.not_followed;
  return compared > figures.unproven ? share(figures.redundant / compared) : "–";
};

const chart = (history) => {
  const most = Math.max(...history, 0);
  const [width, height] = [Math.max(history.length - 1, 60), 40];
  const x = (place) => width - (history.length - 1 - place);
  const y = (perS) => (most > 0 ? height - 1 - (perS / most) * (height - 3) : height - 1);
  const points = history.map((perS, place) => `${x(place)},${y(perS).toFixed(2)}`).join(" ");
  const now = history.at(-1) ?? 0;
  const told = `Requests/s in the last ${plural(history.length, "second")}: now ${rate(now)}, at most ${rate(most)}`;
  const area = `${x(0)},${height} ${points} ${width},${height}`;
  $("live-chart").replaceChildren(
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": told },
      svg("line", { class: "base", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
      svg("polygon", { class: "area", points: area }),
      svg("polyline", { class: "line", points }),
    ),
  );
  say($("live-chart-text"), told);
};

const classes = (total) => {
  const parts = LAYERS.map(([name, of], place) => ({ name, place, count: of(total) })).filter((part) => part.count > 0);
  const all = parts.reduce((sum, part) => sum + part.count, 0);
  if (all === 0) return $("live-classes").replaceChildren();
  const named = parts.map((part) => ({ ...part, text: `${part.name} ${share(part.count / all)}` }));
  let at = 0;
  const bars = named.map((part) => {
    const bar = svg("rect", { class: `c${part.place}`, x: at, y: 0, width: part.count / all, height: 1 });
    at += part.count / all;
    return bar;
  });
  const told = `GetPage by class: ${named.map((part) => part.text).join(", ")}`;
  const square = (place) => svg("svg", { viewBox: "0 0 1 1", "aria-hidden": "true" }, svg("rect", { class: `c${place}`, width: 1, height: 1 }));
  $("live-classes").replaceChildren(
    svg("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", role: "img", "aria-label": told }, ...bars),
    el("ul", { class: "legend", "aria-hidden": "true" }, ...named.map((part) => el("li", null, square(part.place), part.text))),
  );
};

const loss = (lost) => {
  const reasons = [
    ["packets dropped by the kernel", lost.kernel_dropped],
    ["packets dropped by the interface", lost.interface_dropped],
    ["requests lost", lost.lost_requests],
    ["answers lost", lost.lost_responses],
    ["bytes missing", lost.gap_bytes],
    ["connections forgotten", lost.evicted_connections],
  ].filter(([, counted]) => counted > 0);
  const told = reasons.map(([what, counted]) => `${count(counted)} ${what}`).join(", ");
  $("live-loss").classList.toggle("bad", told !== "");
  say($("live-loss"), told === "" ? "Nothing lost." : `Lost since the daemon began, of everybody's: ${told}.`);
};

const nameOf = (row) => {
  if (row.client) return row.client;
  if (row.rel && row.first_blkno !== null) return `${row.rel}  ${row.first_blkno}–${row.last_blkno}`;
  return row.rel ?? row.kind ?? "?";
};

const figuresOf = (figures) => [
  rate(figures.requests_per_s),
  redundant(figures),
  latency(figures.latency_ns.p50),
  latency(figures.latency_ns.p99),
  `${size(figures.page_bytes_per_s)}/s`,
  count(figures.errors + figures.unanswered),
];

const table = new Rows(
  document.querySelector("#live-rows tbody"),
  (row) => {
    const cells = ["n", "n", "n opt", "n", "n opt", "n opt"].map((name) => el("td", { class: name }));
    return el("tr", null, el("th", { scope: "row", class: "id" }, row.name), ...cells);
  },
  (element, row) => row.cells.forEach((text, place) => say(element.children[place + 1], text)),
);

const rows = (view) => {
  say($("live-by"), NAMES[by()]);
  const shown = view.rows.map((row) => ({ name: nameOf(row), cells: figuresOf(row) }));
  if (view.others.requests > 0) shown.push({ name: "all others", cells: figuresOf(view.others) });
  table.show(shown, (row) => row.name);
};

$("live-stop").addEventListener("click", stop);
document.querySelectorAll("input[name=by]").forEach((input) => input.addEventListener("change", () => task?.now()));
