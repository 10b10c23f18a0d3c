// A country's week: seven days and the week as a whole, what is published with what is usual below it.
const WEEKDAYS = "Sun Mon Tue Wed Thu Fri Sat".split(" ");
const weekday = (iso) => WEEKDAYS[new Date(`${iso}T00:00:00Z`).getUTCDay()];
const SHADES = [100, 200, 350, 500, 750]; // thousandths
const shade = (value) => (value === null ? "none" : `q${SHADES.filter((bound) => value >= bound).length}`);

function targetChoice(chosen, name, choose) {
  const buttons = TARGET_WORDS.map((words, number) => h("button", {
    type: "button", [`data-${name}`]: TARGETS[number], "aria-pressed": String(number === chosen),
    onclick: () => {
      buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
      choose(number);
    },
  }, words));
  return h("div", { class: "choice", role: "group", "aria-label": "Target" }, buttons);
}

function stripCell(country, code, horizon, published, usual, kind) {
  return h("td", { class: kind, "data-value": published ?? "" },
    h("span", { class: `said ${shade(published)}` }, published === null ? percent(published) : explains(country, code, horizon, percent(published))), h("span", { class: "usual" }, percent(usual)));
}

function stripRow(country, root, week, target) {
  const [code, name] = DATA.codes[root.code], found = root.targets[target];
  if (!found) return null;
  const [having, weight] = root.having, [rows, usualRows] = root.rows;
  const words = `${rows.toFixed(1)} reports expected, usually ${usualRows.toFixed(1)}; ${having} of ${week.possible} possible weeks have it, ${percent(weight)} of the weight`;
  return h("tr", {},
    h("th", { scope: "row" }, h("span", { class: "code quiet" }, code), " ", bdi(name),
      root.onset && h("span", { class: "about-root onset" }, "nothing for 30 days"), h("span", { class: "about-root" }, words)),
    found[0].map((published, number) => stripCell(country, code, number === 7 ? "week" : number + 1, published, found[1][number], number === 7 ? "within" : "")));
}

function weekStrip(country) {
  const week = country.week;
  if (!week || !DATA.week) return null;
  const holder = h("div", { class: "scroll" });
  const draw = () => holder.replaceChildren(h("table", { class: "strip" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "event" }, "Event"),
      DATA.week.map((day) => h("th", { scope: "col" }, h("b", {}, weekday(day)), shortDay(day, false))),
      h("th", { scope: "col", class: "within" }, h("b", {}, "Week"), "any day"))),
    h("tbody", {}, week.roots.map((root) => stripRow(country, root, week, state.week)))));
  draw();
  const doubles = week.escalation && `Material conflict at least doubles within the week: ${percent(week.escalation[0])}, usually ${percent(week.escalation[1])}.`;
  return h("div", { class: "week" }, h("h4", {}, "The next seven days"),
    doubles && h("p", { class: "doubles" }, doubles),
    h("div", { class: "choosing" }, targetChoice(state.week, "week-target", (number) => { state.week = number; draw(); }),
      h("strong", { class: "on-paper" }, TARGET_WORDS[state.week])),
    holder,
    h("p", { class: "foot" }, "Published, and below it the usual. The kinds of event that are furthest from their usual within the week; all are in week.csv. A possible week has an event if it is reported on at least one day."));
}
