// The fan of futures: each possible next day is a handful of points on the sphere, seen on a plane.
const KINDS = ["verbal cooperation", "material cooperation", "verbal conflict", "material conflict", "other"];
let FAN = 560; // units across; fewer on a phone, so that its letters stay as large
const place = (value) => FAN / 2 + (value / 1000) * (FAN / 2 - 16);

// Labels by weight; one that would cover an earlier one stays out, its cross remains.
function landmarkNames(landmarks, weights) {
  const taken = [], drawn = [];
  const order = [...landmarks].sort((a, b) => (weights.get(b[0]) || 0) - (weights.get(a[0]) || 0));
  for (const [code, x0, y0] of order) {
    const x = place(x0), y = place(-y0), text = label(code).slice(0, 32), width = 6.1 * text.length + 6;
    drawn.push(s("path", { class: "landmark", d: `M${x - 4} ${y}h8M${x} ${y - 4}v8` }, s("title", {}, label(code))));
    const spots = [[x + 7, y + 4, "start"], [x - 7, y + 4, "end"], [x, y - 8, "middle"], [x, y + 16, "middle"]];
    for (const [left, base, anchor] of spots) {
      const from = anchor === "start" ? left : anchor === "end" ? left - width : left - width / 2;
      const box = [from, base - 11, from + width, base + 4];
      const inside = box[0] > 2 && box[2] < FAN - 2 && box[1] > 2 && box[3] < FAN - 2;
      const free = taken.every((b) => box[2] < b[0] || box[0] > b[2] || box[3] < b[1] || box[1] > b[3]);
      if (!inside || !free) continue;
      taken.push(box);
      drawn.push(s("text", { class: "landmark-name", x: left, y: base, "text-anchor": anchor }, text));
      break;
    }
  }
  return drawn;
}

function fanPoints(fan) {
  const heaviest = Math.max(1, ...fan.futures.map((future) => future[1]));
  const found = [];
  fan.futures.forEach(([day, weight, flat], number) => {
    for (let at = 0; at < flat.length; at += 4) {
      const [x, y, size, code] = flat.slice(at, at + 4);
      const radius = (FAN / 560) * (2.5 + 9.5 * Math.sqrt(Math.max(size, 0) / 1000));
      const mark = s("circle", {
        class: `point k${DATA.codes[code][3]}`, cx: place(x).toFixed(1), cy: place(-y).toFixed(1),
        r: radius.toFixed(1), "fill-opacity": (0.12 + 0.6 * Math.sqrt(weight / heaviest)).toFixed(2),
      });
      found.push({ mark, number, day, weight, size, code, x: place(x), y: place(-y) });
    }
  });
  return found;
}

function rootWeights(fan) {
  const weights = new Map();
  for (const [, weight, flat] of fan.futures) {
    for (let at = 0; at < flat.length; at += 4) weights.set(flat[at + 3], (weights.get(flat[at + 3]) || 0) + weight * flat[at + 2]);
  }
  return weights;
}

// Of a paper's thousands of circles, those of one colour and about one weight are one shape.
function merged(marks) {
  const groups = new Map();
  for (const { mark, x, y } of marks) {
    const opacity = Math.min(0.7, 0.1 + 0.2 * Math.round(Number(mark.getAttribute("fill-opacity")) / 0.2));
    const key = `${mark.getAttribute("class")}|${opacity.toFixed(1)}`, r = Number(mark.getAttribute("r"));
    const circle = `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
    groups.set(key, (groups.get(key) || "") + circle);
  }
  return [...groups].map(([key, d]) => s("path", { class: key.split("|")[0], "fill-opacity": key.split("|")[1], d }));
}

function kindsKey(kinds) {
  const used = [...new Set(kinds)].sort();
  return h("ul", { class: "kinds" }, used.map((kind) => h("li", { class: `k${kind}` }, h("i"), KINDS[kind])));
}

function hover(svg, marks, size) {
  let lit = [];
  const unlight = () => { lit.forEach((point) => point.mark.classList.remove("lit")); lit = []; hush(); };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), scale = size / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let nearest = null, least = 16 * scale;
    for (const point of marks) {
      const away = Math.hypot(point.x - x, point.y - y);
      if (away < least) { nearest = point; least = away; }
    }
    unlight();
    if (!nearest) return;
    lit = marks.filter((point) => point.number === nearest.number);
    lit.forEach((point) => point.mark.classList.add("lit"));
    tell(event, label(nearest.code), `${percent(nearest.size)} of this future's day`,
      `drawn from ${shortDay(nearest.day)}, weight ${(nearest.weight / 100).toFixed(1)}%`);
  });
  svg.addEventListener("pointerleave", unlight);
}

function heaviest(fan) {
  const rows = [...fan.futures].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([day, weight, flat]) => {
    const shares = new Map();
    for (let at = 0; at < flat.length; at += 4) shares.set(flat[at + 3], (shares.get(flat[at + 3]) || 0) + flat[at + 2]);
    const main = [...shares].sort((a, b) => b[1] - a[1]).slice(0, 2).map(([code]) => label(code)).join("; ");
    return h("tr", {}, h("td", { class: "nowrap" }, shortDay(day)), h("td", { class: "number" }, `${(weight / 100).toFixed(1)}%`), h("td", {}, bdi(main || "an empty day")));
  });
  return h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "nowrap" }, "Drawn from"), h("th", { scope: "col", class: "number" }, "Weight"), h("th", { scope: "col" }, "Mostly"))), h("tbody", {}, rows));
}

function fanChart(country, paper) {
  const fan = country.fan;
  FAN = narrow() ? 360 : 560;
  const size = FAN;
  const marks = fanPoints(fan), middle = FAN / 2, radius = FAN / 2 - 16;
  const circle = s("circle", { class: "sphere", cx: middle, cy: middle, r: radius });
  const meridians = [0.33, 0.67].flatMap((part) => [
    s("ellipse", { class: "meridian", cx: middle, cy: middle, rx: radius * part, ry: radius }),
    s("ellipse", { class: "meridian", cx: middle, cy: middle, rx: radius, ry: radius * part })]);
  const svg = s("svg", { viewBox: `0 0 ${FAN} ${FAN}`, role: "img", "aria-label": `${fan.futures.length} futures on the sphere; the heaviest are listed beside` },
    circle, meridians, paper ? merged(marks) : marks.map((point) => point.mark), landmarkNames(fan.landmarks, rootWeights(fan)));
  if (!paper) hover(svg, marks, size);
  return h("div", { class: "fan" }, h("div", {}, svg, savingOf(country, svg, "futures", "possible days, as points of meaning")), h("div", {},
    h("p", { class: "quiet" }, `${fan.futures.length} possible days, as much as ${fan.effective} of equal weight. Each is a past day, moved on: a few points on the sphere of meanings, seen on the plane that shows most of their spread (${percent(fan.explained)}). Larger points weigh more in their day; stronger colour means a likelier future. Crosses are standard events.`),
    kindsKey(marks.map((point) => DATA.codes[point.code][3])),
    h("h5", {}, "Heaviest futures"), heaviest(fan)));
}
