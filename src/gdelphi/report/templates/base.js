// What all parts share. Text from data goes to the page as text only (textContent), never as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const narrow = () => document.documentElement.clientWidth < 640;
const bdi = (text) => h("bdi", {}, text);
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// thousandths, as the data has them; the rule is that of common/percent.py
function percent(value) {
  if (value === null || value === undefined) return "–";
  if (value < 5) return "<1%";
  return value >= 995 ? ">99%" : `${Math.floor((value + 5) / 10)}%`;
}
function points(value) {
  if (value === null || value === undefined) return "–";
  const whole = Math.floor((Math.abs(value) + 5) / 10);
  return whole === 0 ? "0" : (value > 0 ? "+" : "−") + whole;
}
const way = (value) => (value === null || Math.abs(value) < 5 ? "" : value > 0 ? "up" : "down");
const less = (a, b) => (a === null || a === undefined || b === null || b === undefined ? null : a - b);

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
function shortDay(iso, year = true) {
  const [y, m, d] = iso.split("-").map(Number);
  return `${d} ${MONTHS[m - 1]}${year ? " " + y : ""}`;
}

const tooltip = one(".tooltip");
function tell(event, title, ...lines) {
  tooltip.replaceChildren(h("strong", {}, bdi(title)), ...lines.map((line) => h("div", {}, bdi(line))));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = Math.min(Math.max(event.clientX + 14, 8), document.documentElement.clientWidth - box.width - 8);
  const under = event.clientY + 18 + box.height < window.innerHeight;
  tooltip.style.left = `${Math.max(left, 8)}px`;
  tooltip.style.top = `${under ? event.clientY + 18 : event.clientY - box.height - 12}px`;
}
function hush() { if (tooltip) tooltip.hidden = true; }

// Light or dark: as the machine says, until a reader chooses. A file:// page may have no storage.
(function theme() {
  const button = one(".theme"), root = document.documentElement;
  const machine = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => root.classList.contains("dark") || (!root.classList.contains("light") && machine.matches);
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  const keep = (value) => { try { localStorage.setItem("gdelphi-theme", value); } catch { /* not kept */ } };
  let kept = null;
  try { kept = localStorage.getItem("gdelphi-theme"); } catch { /* as the machine says */ }
  if (kept === "dark" || kept === "light") root.classList.add(kept);
  button.addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    root.classList.remove("dark", "light");
    root.classList.add(next);
    keep(next);
    label();
  });
  machine.addEventListener("change", label);
  button.hidden = false;
  label();
})();
