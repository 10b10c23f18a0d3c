// The map's quantities. Colours are classes, so that both schemes and print have their own.
const DATA = JSON.parse(one("#data").textContent);
const TARGETS = ["occurs", "headline", "surge"];
const TARGET_WORDS = ["Is reported", "Headline", "Surge"];
const label = (number) => (number === null || number === undefined ? "" : DATA.codes[number][1]);
const PUBLISHED = 0, STACK = 1, USUAL = 2, YESTERDAY = 3, MEMBERS = 4, BEYOND = 5;

const BOUNDS = {
  risk: DATA.riskBounds,
  surge: [100, 150, 200, 300, 500],
  headline: [100, 250, 500, 750, 900],
  difference: [-200, -100, -30, 30, 100, 200],
};

function quantity(country, what, how) {
  if (what === "surge" && country.riskUsual !== null) return [country.risk, `usually ${percent(country.riskUsual)}`];
  if (what === "risk-usual") return [less(country.risk, country.riskUsual), ""];
  if (what === "surge") return [country.surge, label(country.surgeCode)];
  if (what === "change") return [country.change, label(country.changeCode)];
  const line = country.probabilities.find((entry) => entry[0] === Number(what));
  const [name, minus] = how.split("-");
  const found = line && line[1 + TARGETS.indexOf(name)];
  if (!found) return [null, ""];
  return [minus ? less(found[PUBLISHED], found[USUAL]) : found[PUBLISHED], ""];
}

function scaleOf(what, how) {
  if (what === "surge") return ["q", BOUNDS.risk];
  if (what === "change" || what === "risk-usual" || how.endsWith("-usual")) return ["d", BOUNDS.difference];
  return ["q", BOUNDS[how]];
}

function legend(letter, bounds) {
  const words = (number) => {
    const show = letter === "d" ? points : (value) => `${value / 10}`;
    if (number === 0) return letter === "d" ? `${show(bounds[0])} and less` : `under ${show(bounds[0])}%`;
    if (number === bounds.length) return letter === "d" ? `${show(bounds[number - 1])} and more` : `${show(bounds[number - 1])}% and more`;
    return letter === "d" ? `${show(bounds[number - 1])} to ${show(bounds[number])}` : `${show(bounds[number - 1])}–${show(bounds[number])}%`;
  };
  const steps = Array.from({ length: bounds.length + 1 }, (_, number) =>
    h("li", { class: letter + number }, h("i"), h("span", {}, words(number))));
  const unknown = all("a.land.known").length > 0 && h("li", { class: "known" }, h("i"), h("span", {}, "unknown"));
  return [...steps, ...(unknown ? [unknown] : []), h("li", { class: "none" }, h("i"), h("span", {}, "not followed"))];
}

function startMap() {
  const what = one(".map-what"), how = one(".map-how"), title = one(".map-title");
  const drawing = one(".world svg"), zoom = one(".map-zoom"), near = drawing.getAttribute("viewBox");
  zoom.hidden = near === drawing.dataset.whole;
  zoom.addEventListener("click", () => {
    const whole = zoom.getAttribute("aria-pressed") !== "true";
    zoom.setAttribute("aria-pressed", String(whole));
    drawing.setAttribute("viewBox", whole ? drawing.dataset.whole : near);
  });
  one(".map-controls").hidden = false;
  if (!DATA.forecast) { // titles of the links say what is to be said
    for (const choice of all(".map-controls label")) choice.hidden = true;
    return;
  }
  const group = h("optgroup", { label: "One event" });
  DATA.codes
    .map((code, number) => [code, number])
    .filter(([code]) => code[2] === "root")
    .sort(([a], [b]) => (a[0] < b[0] ? -1 : 1))
    .forEach(([code, number]) => group.append(h("option", { value: number }, `${code[0]} ${code[1]}`)));
  what.append(group);
  const first = title.textContent;
  const colour = () => {
    const single = !["surge", "risk-usual", "change"].includes(what.value);
    one(".map-how-label").hidden = !single;
    const [letter, bounds] = scaleOf(what.value, how.value);
    for (const land of all("a.land")) {
      const country = DATA.countries[Number(land.dataset.index)];
      const [value, more] = quantity(country, what.value, how.value);
      const step = value === null ? "known" : letter + bounds.filter((bound) => value >= bound).length;
      const words = value === null ? "unknown" : letter === "d" ? `${points(value)} points` : percent(value);
      land.setAttribute("class", `land ${step}`);
      land.setAttribute("aria-label", `${country.name}: ${words}${more ? ", " + more : ""}`);
      land.tip = [country.name, more ? `${words}, ${more}` : words];
      const native = one("title", land);
      if (native) native.remove();
    }
    one(".legend").replaceChildren(...legend(letter, bounds));
    if (what.value === "surge") title.textContent = first;
    else if (what.value === "risk-usual") title.textContent = "Any conflict surge within the week: percentage points above (orange) or below (blue) its usual";
    else if (what.value === "change") title.textContent = "The event whose chance of a headline is farthest from what is usual there: percentage points above (orange) or below (blue)";
    else title.textContent = `${label(Number(what.value))}: ${how.selectedOptions[0].textContent}${letter === "d" ? ", in percentage points" : ""}`;
  };
  what.addEventListener("change", colour);
  how.addEventListener("change", colour);
  for (const land of all("a.land")) {
    land.addEventListener("pointermove", (event) => tell(event, ...land.tip));
    land.addEventListener("pointerleave", hush);
    land.addEventListener("focus", () => {
      const box = land.getBoundingClientRect();
      tell({ clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }, ...land.tip);
    });
    land.addEventListener("blur", hush);
  }
  colour();
}
