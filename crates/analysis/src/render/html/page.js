"use strict";
(() => {
  const tip = document.getElementById("tip");
  const grids = new Map();
  let marked = null;

  // What is said of each cell is read when it is first asked for.
  const gridOf = (id) => {
    if (!grids.has(id)) {
      const data = JSON.parse(document.getElementById(id + "-data").textContent);
      data.at = new Map();
      for (let i = 0; i < data.cells.length; i += 4) {
        data.at.set(data.cells[i] + "," + data.cells[i + 1], [data.cells[i + 2], data.cells[i + 3]]);
      }
      grids.set(id, data);
    }
    return grids.get(id);
  };

  const hide = () => {
    tip.hidden = true;
    if (marked) marked.classList.remove("on");
    marked = null;
    document.querySelectorAll(".cursor").forEach((cursor) => cursor.setAttribute("visibility", "hidden"));
  };

  const say = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
  };

  const sayCell = (rect, column, row, x, y) => {
    const grid = gridOf(rect.dataset.grid);
    const cell = grid.at.get(column + "," + row);
    const cursor = rect.nextElementSibling;
    const plot = rect.getBBox();
    cursor.setAttribute("x", plot.x + (column * plot.width) / grid.columns.length);
    cursor.setAttribute("y", plot.y + plot.height - ((row + 1) * plot.height) / grid.rows.length);
    cursor.setAttribute("visibility", "visible");
    const count = cell ? cell[1].toLocaleString("en") : "none";
    const kind = cell && grid.layers.length ? ", mostly " + grid.layers[cell[0]] : "";
    say(`${grid.rows[row]} from ${grid.columns[column]}: ${count} GetPage${kind}`, x, y);
  };

  const limit = (value, size) => Math.max(0, Math.min(size - 1, value));

  document.addEventListener("pointermove", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const hit = target && target.closest(".hit");
    hide();
    if (!hit) return;
    if (hit.dataset.t) return say(hit.dataset.t, event.clientX, event.clientY);
    const grid = gridOf(hit.dataset.grid);
    const box = hit.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * grid.columns.length);
    const row = Math.floor(((box.bottom - event.clientY) / box.height) * grid.rows.length);
    sayCell(hit, limit(column, grid.columns.length), limit(row, grid.rows.length), event.clientX, event.clientY);
  });
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });

  // With the keyboard: a chart has the focus, the arrows go from mark to mark, Escape ends it.
  document.querySelectorAll(".chart svg").forEach((svg) => {
    const hits = [...svg.querySelectorAll(".hit")];
    let column = -1;
    let row = 0;
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (event.key === "Escape") hide();
      if (!step || !hits.length) return;
      event.preventDefault();
      hide();
      if (hits[0].dataset.grid) {
        const grid = gridOf(hits[0].dataset.grid);
        column = limit(column + step[0], grid.columns.length);
        row = limit(row + step[1], grid.rows.length);
        const box = hits[0].getBoundingClientRect();
        const x = box.left + ((column + 0.5) * box.width) / grid.columns.length;
        const y = box.bottom - ((row + 0.5) * box.height) / grid.rows.length;
        return sayCell(hits[0], column, row, x, y);
      }
      column = limit(column + (step[0] || -step[1]), hits.length);
      marked = hits[column];
      marked.classList.add("on");
      const box = marked.getBoundingClientRect();
      say(marked.dataset.t, box.left + box.width / 2, box.top + box.height / 2);
    });
  });
})();
