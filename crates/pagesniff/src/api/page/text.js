// Numbers and times as people read them, by the rules of `pagesniff top`; and elements made of text, never of markup.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value) => grouped.format(value);

const decimal = (value) => value.toFixed(value > 0 && value < 99.95 ? 1 : 0);

export const rate = (perS) => {
  if (perS < 9.95) return decimal(perS);
  return perS >= 999500 ? (perS / 1e6).toFixed(2) + " M" : count(perS);
};

export const size = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.length; unit++) bytes /= 1024;
  return `${bytes.toFixed(unit > 0 && bytes < 99.95 ? 1 : 0)} ${units[unit]}`;
};

export const latency = (ns) => {
  if (ns === null || ns === undefined) return "–";
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([unit]) => ns >= unit * 0.9995) ?? [1, "ns"];
  const value = ns / unit;
  return `${value.toFixed(unit === 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)} ${name}`;
};

export const share = (value) => {
  const percent = value * 100;
  return `${percent.toFixed(percent > 0 && percent < 9.95 ? 1 : 0)} %`;
};

export const average = (value) => (value === null ? "–" : decimal(value));

export const span = (ms) => {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
};

// Half a minute is "30 s", never "0.5 min": lengths to choose from are whole in the unit that they are said in.
export const length = (seconds) => {
  if (seconds % 3600 === 0) return seconds === 3600 ? "1 hour" : `${seconds / 3600} hours`;
  if (seconds % 60 === 0) return seconds === 60 ? "1 minute" : `${seconds / 60} minutes`;
  return `${seconds} seconds`;
};

// The date only where it is not today's.
export const time = (ns) => {
  const then = new Date(ns / 1e6);
  const isToday = then.toDateString() === new Date().toDateString();
  return isToday ? then.toLocaleTimeString() : then.toLocaleString();
};

export const plural = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;

export const $ = (id) => document.getElementById(id);

// Attributes whose names begin with "on" are listeners; children are elements or text.
export const el = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

export const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

// What says the same as before is left alone, so that nobody who selects it or listens to it is disturbed.
export const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

export const notes = (list, texts) => {
  if (list.textContent === texts.map(([text]) => text).join("")) return;
  list.replaceChildren(...texts.map(([text, isBad]) => el("li", { class: isBad ? "bad" : null }, text)));
};

// Figures with their names: made once, then only their text changes.
export const tiles = (list, figures) => {
  const names = figures.map(([name]) => name).join();
  if (list.dataset.names !== names) {
    list.dataset.names = names;
    const tile = ([name]) => el("div", null, el("dt", null, name), el("dd", null, el("span"), el("small")));
    list.replaceChildren(...figures.map(tile));
  }
  figures.forEach(([, figure, more, isAlarm], place) => {
    const tile = list.children[place];
    tile.classList.toggle("alarm", Boolean(isAlarm));
    say(tile.querySelector("span"), figure);
    say(tile.querySelector("small"), more ?? "");
  });
};

// A table's rows by key. They stay the same elements, and stay where they are while somebody is in the table: what has the
// focus or is under the pointer does not move away.
export class Rows {
  constructor(body, make, update) {
    Object.assign(this, { body, make, update, rows: new Map() });
  }

  show(items, keyOf) {
    const isInUse = this.body.matches(":hover") || this.body.contains(document.activeElement);
    const left = new Set(this.rows.keys());
    items.forEach((item, place) => {
      const key = keyOf(item);
      left.delete(key);
      if (!this.rows.has(key)) {
        const row = this.make(item);
        this.rows.set(key, row);
        this.body.append(row);
      }
      const row = this.rows.get(key);
      this.update(row, item);
      if (!isInUse && this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
    });
    left.forEach((key) => {
      this.rows.get(key).remove();
      this.rows.delete(key);
    });
  }
}
