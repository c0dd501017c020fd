// What is asked again and again: pauses, tries again, and one line that says what is wrong.

import { Refusal, pauseAfter } from "./client.js";
import { $, say } from "./text.js";

const tasks = new Set();
const troubles = new Map();
let onUnknown = () => {};

// Told when the daemon does not know the token any more.
export const whenUnknown = (listener) => (onUnknown = listener);

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const showState = () => {
  const worst = [...troubles.values()].sort((one, other) => one.nextAt - other.nextAt)[0];
  document.body.dataset.state = worst ? "trouble" : "live";
  say($("state-text"), worst ? "not up to date" : "up to date");
  if (worst) {
    const seconds = Math.max(0, Math.ceil((worst.nextAt - Date.now()) / 1000));
    const message = `${sentence(worst.message)}. What is shown may be old. Trying again`;
    // The seconds are for the eyes: whoever listens to the page hears of the trouble once.
    if ($("problem").dataset.message !== message) {
      $("problem").dataset.message = message;
      say($("problem-text"), `${message}.`);
    }
    $("again").textContent = seconds > 0 ? `Try now (${seconds} s)` : "Trying …";
  } else {
    delete $("problem").dataset.message;
  }
  $("problem").hidden = !worst;
};

let ticking = null;

const setTrouble = (task, trouble) => {
  if (trouble) troubles.set(task, trouble);
  else troubles.delete(task);
  showState();
  if (troubles.size > 0 && ticking === null) ticking = setInterval(showState, 1000);
  if (troubles.size === 0 && ticking !== null) {
    clearInterval(ticking);
    ticking = null;
  }
};

// Does `work` again and again; it returns after how many milliseconds it wants to be done again, or never with null.
// A page that nobody looks at asks for nothing.
export class Task {
  constructor(work) {
    Object.assign(this, { work, failures: 0, timer: null, controller: null });
    tasks.add(this);
    this.now();
  }

  now() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!tasks.has(this) || document.hidden) return;
    if (this.controller) this.controller.abort();
    const controller = new AbortController();
    this.controller = controller;
    this.work(controller.signal, () => this.isWell()).then(
      (pauseMs) => this.controller === controller && this.later(pauseMs),
      (error) => this.controller === controller && this.failed(error),
    );
  }

  isWell() {
    this.failures = 0;
    setTrouble(this, null);
  }

  later(pauseMs) {
    this.controller = null;
    this.isWell();
    if (pauseMs !== null) this.timer = setTimeout(() => this.now(), pauseMs);
  }

  failed(error) {
    this.controller = null;
    if (error instanceof Refusal && error.status === 401) return onUnknown(error.message);
    const pauseMs = pauseAfter(this.failures++, error.waitS);
    const message = error instanceof Refusal ? error.message : "the daemon does not answer in time";
    setTrouble(this, { message, nextAt: Date.now() + pauseMs });
    this.timer = setTimeout(() => this.now(), pauseMs);
  }

  stop() {
    tasks.delete(this);
    clearTimeout(this.timer);
    if (this.controller) this.controller.abort();
    this.controller = null;
    setTrouble(this, null);
  }

  rest() {
    clearTimeout(this.timer);
    if (this.controller) this.controller.abort();
    this.controller = null;
    setTrouble(this, null);
  }
}

export const stopAll = () => [...tasks].forEach((task) => task.stop());

// Someone who looks at another page for a moment finds the live figures running.
const REST_AFTER_MS = 30000;
let resting = null;

document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(() => tasks.forEach((task) => task.rest()), REST_AFTER_MS);
  else tasks.forEach((task) => task.controller ?? task.now());
});

$("again").addEventListener("click", () => [...troubles.keys()].forEach((task) => task.now()));
