// Drawings of a country: volume, dots of probabilities, shares with their past.
function pathOf(values, x, y) {
  let pen = "M", path = "";
  values.forEach((value, number) => {
    if (value === null) { pen = "M"; return; }
    path += `${pen}${x(number).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function volumeChart(rows) {
  const top = Math.max(1, ...rows.filter((value) => value !== null));
  const x = (number) => 1 + (218 * number) / Math.max(rows.length - 1, 1);
  return s("svg", { class: "volume", viewBox: "0 0 220 44", "aria-hidden": "true" },
    s("path", { d: pathOf(rows, x, (value) => 40 - (34 * value) / top) }));
}

// Published, stack and usual on one line from 0 to 100%.
function dots(found) {
  const x = (value) => `${value / 10}%`;
  const marks = [0, 250, 500, 750, 1000].map((value) => s("line", { class: "grid", x1: x(value), x2: x(value), y1: 5, y2: 13 }));
  const has = (value) => value !== null && value !== undefined;
  return s("svg", { class: "dots", "aria-hidden": "true" },
    s("line", { class: "track", x1: 0, x2: "100%", y1: 9, y2: 9 }), marks,
    has(found[USUAL]) && s("line", { class: "mark-usual", x1: x(found[USUAL]), x2: x(found[USUAL]), y1: 2, y2: 16 }),
    has(found[STACK]) && s("circle", { class: "mark-stack", cx: x(found[STACK]), cy: 9, r: 4 }),
    s("circle", { class: "mark-published", cx: x(found[PUBLISHED]), cy: 9, r: 4.6 }));
}

function dotsKey() {
  const sign = (...marks) => s("svg", { viewBox: "0 0 16 14", "aria-hidden": "true" }, ...marks);
  return h("p", { class: "key" },
    h("span", {}, sign(s("circle", { class: "mark-published", cx: 8, cy: 7, r: 4.6 })), "published"),
    h("span", {}, sign(s("circle", { class: "mark-stack", cx: 8, cy: 7, r: 4 })), "without the network"),
    h("span", {}, sign(s("line", { class: "mark-usual", x1: 8, x2: 8, y1: 1, y2: 13 })), "usual"));
}

function niceTop(value) {
  const steps = [10, 20, 50, 100, 150, 200, 300, 400, 500, 600, 800, 1000];
  return steps.find((step) => value <= step) || 1000;
}

// The last days as a line, and tomorrow as a band: 5-95%, 25-75%, median.
function shareChart(country, [code, bands, past]) {
  const width = narrow() ? 168 : 300, height = 118, left = 30, right = width - 38, bottom = 98, head = 8;
  const known = past.filter((value) => value !== null);
  const top = niceTop(Math.max(5, ...known, DATA.forecast ? bands[4] : 0));
  const x = (number) => left + ((right - left) * number) / Math.max(past.length - 1, 1);
  const y = (value) => bottom - ((bottom - head) * Math.min(value, top)) / top;
  const tick = (value) => [
    s("line", { class: "axis", x1: left, x2: width - 8, y1: y(value), y2: y(value) }),
    s("text", { x: left - 5, y: y(value) + 3, "text-anchor": "end" }, `${value / 10}%`)];
  const column = (from, to, kind) => s("rect", { class: kind, x: width - 30, width: 18, y: y(to), height: Math.max(y(from) - y(to), 1) });
  const words = DATA.forecast ? `tomorrow ${percent(bands[2])} (${percent(bands[0])} to ${percent(bands[4])})` : "";
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label(code)}: ${words}` },
      tick(0), tick(top / 2), tick(top),
      s("path", { class: "past", d: pathOf(past, x, y) }),
      DATA.forecast && [column(bands[0], bands[4], "outer"), column(bands[1], bands[3], "inner"),
        s("line", { class: "median", x1: width - 30, x2: width - 12, y1: y(bands[2]), y2: y(bands[2]) })],
      DATA.days.length > 0 && s("text", { x: left, y: 113 }, shortDay(DATA.days[0], false)),
      s("text", { x: DATA.forecast ? width - 4 : right, y: 113, "text-anchor": "end", class: "end" }, shortDay(DATA.forecast ? DATA.target : DATA.origin, false)));
  return h("figure", {},
    h("figcaption", {}, h("b", { title: label(code) }, bdi(label(code))), h("span", {}, words)), svg,
    savingOf(country, svg, `share-${DATA.codes[code][0]}`, `share of ${label(code)}, ${words}`));
}
