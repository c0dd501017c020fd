// A capture's report, in a frame of its own from which nothing of this page can be reached.

import { askText } from "./client.js";
import { $, el, say } from "./text.js";

let reading = null;
let address = null;

const close = () => {
  reading?.abort();
  reading = null;
  if (address !== null) URL.revokeObjectURL(address);
  address = null;
  $("report-frame").replaceChildren();
};

export const openReport = async (id, whose, pressed) => {
  close();
  const controller = new AbortController();
  reading = controller;
  say($("report-title"), `Report of ${whose}`);
  say($("report-state"), "The report is being made. For a large capture that takes a while; closing this ends it.");
  $("report-tab").hidden = $("report-save").hidden = true;
  $("report").onclose = () => {
    close();
    pressed.focus();
  };
  $("report").showModal();
  try {
    const page = await askText(`v1/captures/${encodeURIComponent(id)}/report`, controller.signal);
    if (reading !== controller) return;
    address = URL.createObjectURL(new Blob([page], { type: "text/html;charset=utf-8" }));
    // Its own script may run, as what this page says of itself allows that one and no other; from its frame it reaches nothing.
    $("report-frame").replaceChildren(el("iframe", { src: address, sandbox: "allow-scripts", title: `Report of ${whose}` }));
    say($("report-state"), "");
    $("report-tab").href = $("report-save").href = address;
    $("report-save").download = `${id}.html`;
    $("report-tab").hidden = $("report-save").hidden = false;
  } catch (error) {
    if (reading === controller) say($("report-state"), `There is no report: ${error.message}.`);
  }
};

$("report-close").addEventListener("click", () => $("report").close());
