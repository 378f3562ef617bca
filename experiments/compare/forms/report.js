"use strict";
// Sorts tables, switches variants on and off, shows the values of charts, and links runs that lie beside the page.
document.documentElement.classList.add("live");
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

for (const head of all(".sortable th:not(:empty)")) {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => sort(head));
}

function sort(head) {
  const rising = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const body = head.closest("table").tBodies[0];
  const keyed = [...body.rows].map((row) => [row.cells[head.cellIndex].textContent, row]);
  keyed.sort(([a], [b]) => compare(a, b, rising ? 1 : -1));
  body.append(...keyed.map(([, row]) => row));
}

function compare(a, b, direction) { // cells without a value come last
  const [empty, other] = [a, b].map((text) => text === "-");
  if (empty || other) return empty - other;
  const [first, second] = [a, b].map((text) => parseFloat(text.replace("<", "")));
  const bothNumbers = !isNaN(first) && !isNaN(second) && first !== second;
  return direction * (bothNumbers ? first - second : a.localeCompare(b));
}

for (const box of all(".legend input")) {
  box.addEventListener("change", () => {
    for (const line of all(`[data-variant="${box.value}"]`, box.closest("section"))) line.toggleAttribute("hidden", !box.checked);
  });
}

const numbers = (text) => text.split(" ").filter((part) => part !== "log").map(Number);
const points = (path) => [...path.getAttribute("d").matchAll(/([-\d.]+) ([-\d.]+)/g)].map((found) => [+found[1], +found[2]]);

function reader(text, start, end) { // from a coordinate to the value on the axis, and back
  const log = text.endsWith(" log");
  const [low, high] = numbers(text).map((value) => (log ? Math.log10(value) : value));
  const value = (place) => low + ((place - start) / (end - start)) * (high - low);
  return {
    value: (place) => (log ? 10 ** value(place) : value(place)),
    place: (number) => start + (((log ? Math.log10(number) : number) - low) / (high - low)) * (end - start),
    write: (number) => (log ? number.toPrecision(3) : number.toFixed(Math.max(0, Math.min(6, 3 - Math.ceil(Math.log10(high - low)))))),
  };
}

for (const chart of all(".chart")) {
  const [left, right, top, bottom] = numbers(chart.dataset.box);
  const [x, y, at] = [reader(chart.dataset.x, left, right), reader(chart.dataset.y, bottom, top), numbers(chart.dataset.at)];
  const cursor = chart.querySelector(".cursor");
  const shown = document.createElement("div");
  shown.className = "values";
  shown.hidden = true;
  shown.setAttribute("role", "status"); // read aloud
  chart.parentElement.append(shown);
  let index = 0;

  function show(next) {
    index = Math.max(0, Math.min(at.length - 1, next));
    const place = x.place(at[index]);
    cursor.setAttribute("transform", `translate(${place})`);
    const table = document.createElement("table");
    for (const line of all(".line:not([hidden])", chart)) {
      const text = values(line, place);
      if (!text) continue;
      const row = table.insertRow();
      row.style.cssText = line.style.cssText;
      row.className = "ink";
      row.insertCell().textContent = line.dataset.name;
      row.insertCell().textContent = text;
    }
    shown.replaceChildren(`${chart.dataset.name} ${at[index]}`, table);
    hide(false);
    const [pixel, width] = [chart.clientWidth / chart.viewBox.baseVal.width, shown.offsetWidth];
    const wanted = pixel * place + (place > (left + right) / 2 ? -8 - width : 8);
    shown.style.left = `${Math.max(0, Math.min(chart.clientWidth - width, wanted))}px`;
  }

  function values(line, place) { // middle, and the ends of the band, where the line has a point
    const near = (path) => (path ? points(path).filter((point) => Math.abs(point[0] - place) < 0.06).map((point) => point[1]) : []);
    const write = (point) => (chart.dataset.zero && point > bottom - 0.06 ? "≤ " : "") + y.write(y.value(point));
    const [middle] = near(line.querySelector(".partly") ?? line.querySelector(".middle"));
    if (middle === undefined) return "";
    const [high, low] = near(line.querySelector(".band")).sort((a, b) => a - b);
    return write(middle) + (low > high ? ` [${write(low)}, ${write(high)}]` : "");
  }

  function hide(yes) {
    shown.hidden = yes;
    cursor.toggleAttribute("hidden", yes);
  }

  for (const kind of ["pointermove", "pointerdown"]) chart.addEventListener(kind, (event) => {
    const box = chart.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    const far = at.map((value) => Math.abs(x.place(value) - place));
    show(far.indexOf(Math.min(...far)));
  });
  chart.addEventListener("pointerleave", () => hide(true));
  chart.addEventListener("blur", () => hide(true));
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) show(index + step);
  });
}

// A run is linked if the folders above this page are those in which it was written, as far up as the link goes.
const home = JSON.parse(document.body.dataset.home);
const here = decodeURIComponent(location.pathname).split("/").filter(Boolean).slice(0, -1);
for (const text of all("[data-run]")) {
  const up = text.dataset.run.split("../").length - 1;
  const count = Math.min(here.length, up + 1);
  if (here.length < up || (count && here.slice(-count).join("/") !== home.slice(-count).join("/"))) continue;
  const link = document.createElement("a");
  link.href = text.dataset.run;
  link.append(...text.childNodes);
  text.append(link);
}

addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
