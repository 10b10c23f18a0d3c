// Saving a chart as a file: what is drawn with the colours that it has here, a title, and whence.
// Colours are written out, since a file of its own has no style sheet; what says nothing is left out.
const PLAIN = {
  fill: "", "fill-opacity": "1", stroke: "none", "stroke-width": "1px", "stroke-dasharray": "none", "stroke-linejoin": "miter",
  opacity: "1", "paint-order": "normal", "font-family": "", "font-size": "", "font-weight": "400", "text-anchor": "start",
};
const WORDS = ["font-family", "font-size", "font-weight", "text-anchor"];
const PAGE_ONLY = ["class", "href", "role", "aria-label", "aria-hidden", "data-index", "data-whole", "tabindex"];

function drawn(svg) {
  const copy = svg.cloneNode(true), marks = all("*", copy);
  all("*", svg).forEach((element, number) => {
    const seen = getComputedStyle(element), text = element.tagName === "text";
    for (const [name, plain] of Object.entries(PLAIN)) {
      const value = seen.getPropertyValue(name);
      if (value !== plain && (text || !WORDS.includes(name))) marks[number].setAttribute(name, value);
    }
    PAGE_ONLY.forEach((name) => marks[number].removeAttribute(name));
  });
  PAGE_ONLY.forEach((name) => copy.removeAttribute(name));
  return copy;
}

function chartFile(svg, title) {
  const box = svg.viewBox.baseVal, unit = box.width / 46, scale = 1200 / box.width;
  const seen = getComputedStyle(document.documentElement), colour = (name) => seen.getPropertyValue(name).trim();
  const height = box.height + 4.4 * unit;
  const inner = drawn(svg);
  for (const [name, value] of Object.entries({ x: 0, y: 2.4 * unit, width: box.width, height: box.height })) inner.setAttribute(name, value);
  const words = (text, y, ink, size) => s("text", { x: unit, y, fill: colour(ink), "font-family": "sans-serif", "font-size": size * unit }, text);
  const cut = title.length > 76 ? `${title.slice(0, 75)}…` : title;
  const whole = s("svg", { viewBox: `0 0 ${box.width} ${height}`, width: 1200, height: Math.round(height * scale) },
    s("title", {}, title), s("rect", { width: box.width, height, fill: colour("--paper") }),
    words(cut, 1.6 * unit, "--ink", 1.05), inner,
    words(`gdelphi, from news up to ${shortDay(DATA.origin)}`, height - 0.6 * unit, "--quiet", 0.8));
  whole.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(whole);
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function savePng(text, name) {
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = h("canvas", { width: image.width, height: image.height });
    canvas.getContext("2d").drawImage(image, 0, 0);
    canvas.toBlob((blob) => download(blob, name), "image/png");
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

// `about` gives the name of the file and the title when they are asked for: the open country may change.
function saving(svg, about) {
  const button = (kind, save) => h("button", { type: "button", "aria-label": `Save as ${kind}: ${about()[1]}`, onclick: () => {
    const [name, title] = about();
    save(chartFile(svg, title), `${name.replace(/[^A-Za-z0-9-]+/g, "-")}.${kind.toLowerCase()}`);
  } }, kind);
  return h("span", { class: "save" },
    button("SVG", (text, name) => download(new Blob([text], { type: "image/svg+xml" }), name)), button("PNG", savePng));
}

function savingOf(country, svg, kind, title) {
  return saving(svg, () => [`${country.stream}-${kind}`, `${country.name}: ${title}`]);
}

function startSaving() {
  const world = one(".world svg");
  one(".world figcaption").append(saving(world, () => ["map", one(".map-what").selectedOptions[0].textContent]));
  for (const figure of all(".calibrations figure")) {
    const words = one("figcaption", figure).textContent;
    figure.append(saving(one("svg", figure), () => [`calibration-${words}`, `Said and come: ${words}`]));
  }
}
