// A country in detail, drawn when it is opened.
const state = { index: null, target: 1, week: 1, whole: false };

function phraseList(title, phrases, none) {
  const most = Math.max(1, ...phrases.map((phrase) => phrase[0]));
  const items = phrases.map(([weight, words, kind, root]) => {
    const bar = h("i", { class: `k${kind}` });
    bar.style.width = `${Math.max(1, (100 * weight) / most)}%`;
    return h("li", {}, h("span", { class: "number" }, percent(weight)), h("span", {}, bdi(words), root && h("span", { class: "quiet root" }, ` ${root}`)), bar);
  });
  const said = phrases.reduce((sum, phrase) => sum + phrase[0], 0);
  const unit = h("p", { class: "quiet unit" }, `Share of the weight of all reports; a phrase stands for reports of its own kind alone. These are ${percent(said)} of the day.`);
  return h("div", {}, h("h4", {}, title), phrases.length ? [unit, h("ol", { class: "phrases" }, items)] : h("p", { class: "empty" }, none));
}

function keyFigures(country) {
  const last = country.rows.length ? country.rows[country.rows.length - 1] : null;
  const figure = (title, value, words) => h("div", {}, h("dt", {}, title), h("dd", {}, h("strong", {}, value), " ", bdi(words)));
  return h("dl", { class: "keys" },
    country.riskUsual !== null && figure("Any conflict surge within the week", percent(country.risk), `usually ${percent(country.riskUsual)}`),
    country.riskUsual === null && country.surge !== null && figure("Conflict surge, largest chance", percent(country.surge), label(country.surgeCode)),
    country.change !== null && figure("Headline farthest from usual", `${points(country.change)} pts`, label(country.changeCode)),
    figure("Reports on the last day", last === null ? "–" : last.toLocaleString("en"), ""));
}

function memberWords(found) {
  const members = Object.entries(found[MEMBERS] || {}).map(([name, value]) => `${name} ${percent(value)}`);
  return members.length ? `members: ${members.join(", ")}` : null;
}

function probabilityRow(country, line, target) {
  const found = line[1 + target], [code, name] = DATA.codes[line[0]];
  if (!found) return null;
  const since = less(found[PUBLISHED], found[YESTERDAY]);
  const number = (value, text, kind) => h("td", { class: `number ${kind || ""}`, "data-value": value ?? "" }, text);
  return h("tr", { title: memberWords(found) },
    h("th", { scope: "row", class: "event", "data-value": code }, h("span", { class: "code" }, code), " ", bdi(name)),
    h("td", { class: "plot" }, dots(found)),
    number(found[PUBLISHED], [explains(country, code, 1, percent(found[PUBLISHED])), found[BEYOND] && h("abbr", { class: "beyond", title: "Beyond what was published on the days of calibration, or outside of what members say: how good such numbers are is not known." }, "*")], "published"),
    number(found[STACK], percent(found[STACK])),
    number(found[USUAL], percent(found[USUAL])),
    number(since, h("span", { class: `difference ${way(since)}` }, points(since))));
}

function probabilityTable(country, lines, target) {
  const head = (text, sort, kind) => h("th", { scope: "col", class: kind, "data-sort": sort }, text);
  const scale = h("span", { class: "scale" }, h("span", {}, "0"), h("span", {}, "50"), h("span", {}, "100%"));
  const table = h("table", { class: "probabilities" },
    h("thead", {}, h("tr", {}, head("Event", "text", "event"), head(scale, null, "plot"), head("Published", "number", "number"),
      head("Stack", "number", "number"), head("Usual", "number", "number"), head("Since last forecast", "number", "number"))),
    h("tbody", {}, lines.map((line) => probabilityRow(country, line, target))));
  sortable(table);
  return table;
}

function probabilities(country) {
  const roots = country.probabilities.filter((line) => DATA.codes[line[0]][2] === "root");
  const finer = country.probabilities.filter((line) => DATA.codes[line[0]][2] !== "root");
  const holder = h("div"), more = h("details", { class: "finer" }, h("summary", {}, `Finer codes (${finer.length})`)), inner = h("div", { class: "scroll" });
  more.append(inner, h("p", { class: "foot" }, "Codes below 1% in all of it are in probabilities.csv alone."));
  const draw = () => {
    const which = country.which[state.target];
    holder.replaceChildren(
      which === "stack" ? h("p", { class: "quiet" }, "For this target the stack is published: the combination was not better on the days that decide.") : "",
      probabilityTable(country, roots, state.target));
    inner.replaceChildren(...(more.open ? [probabilityTable(country, finer, state.target)] : []));
  };
  more.addEventListener("toggle", draw);
  const choice = targetChoice(state.target, "target", (number) => { state.target = number; draw(); });
  draw();
  return h("div", {}, h("h4", {}, "Probabilities of standard events"),
    h("div", { class: "choosing" }, choice,
      h("strong", { class: "on-paper" }, TARGET_WORDS[state.target]), dotsKey()),
    holder, finer.length > 0 && more,
    h("p", { class: "foot" }, "A click on a published number shows the command that explains it. *: beyond what was published on the days of calibration."));
}

function shareCharts(country) {
  if (!country.shares.length) return null;
  const words = DATA.forecast ? "The largest kinds of event as shares of the country's news: the last days, and tomorrow's range (dark: half of all cases, pale: nine in ten)." : "The largest kinds of event as shares of the country's news.";
  return h("div", {}, h("h4", {}, "Shares of the news"), h("p", { class: "quiet" }, words), h("div", { class: "multiples" }, country.shares.map((share) => shareChart(country, share))));
}

function source(evidence) {
  if (evidence.address) {
    try {
      const address = new URL(evidence.address);
      if (address.protocol === "https:" || address.protocol === "http:") {
        return h("a", { href: address.href, rel: "noopener noreferrer", target: "_blank" }, bdi(address.hostname.replace(/^www\./, "")));
      }
    } catch { /* shown as text */ }
  }
  return evidence.source ? bdi(evidence.source) : "no source";
}

function eventItem(event) {
  const [who, whom, where] = event.arguments;
  const list = (title, found, kind) => h("div", { class: kind }, h("dt", {}, title), found.length
    ? found.map(([words, chance], number) => h("dd", { class: number === 0 ? "first" : null }, h("span", {}, bdi(words)), h("span", {}, percent(chance))))
    : h("dd", {}, "unknown"));
  return h("li", {},
    h("header", {}, h("h5", {}, bdi(`${DATA.codes[event.code][0]} ${label(event.code)}`)), h("span", { class: "quiet" }, `headline ${percent(event.headline)}, is reported ${percent(event.occurs)}`)),
    h("dl", { class: "arguments" }, list("Who", who), list("to whom", whom, "whom"), list("where", where, "place")),
    h("div", {}, h("p", { class: "evidence-title" }, "Past reports that speak for it"), h("ul", { class: "evidence" }, event.evidence.map((item) =>
      h("li", {}, `${shortDay(item.day)}: `, bdi(item.words), item.place ? [", ", bdi(item.place)] : null, ` (${item.mentions} mentions; `, source(item), ")")))));
}

const FIRST_EVENTS = 4;
function eventList(events) {
  const list = (some) => h("ol", { class: "events" }, some.map(eventItem));
  const rest = events.slice(FIRST_EVENTS);
  return h("div", {}, h("p", { class: "quiet" }, "The likeliest events, and if they come, the likeliest arguments."), list(events.slice(0, FIRST_EVENTS)),
    rest.length > 0 && h("details", { class: "more-events" }, h("summary", {}, `Further events (${rest.length})`), list(rest)));
}

function drawCountry(country, paper) {
  const volume = volumeChart(country.rows), days = `Reports a day, last ${DATA.days.length} days`;
  const part = (title, content, none) => h("div", {}, h("h4", {}, title), content || h("p", { class: "empty" }, none));
  return h("article", { class: "country", "aria-label": country.name },
    h("div", { class: "country-head" }, h("div", {}, h("h3", {}, bdi(country.name), h("span", { class: "quiet" }, country.stream)), keyFigures(country)),
      h("div", {}, h("span", { class: "quiet" }, days), volume, savingOf(country, volume, "reports", days))),
    weekStrip(country),
    h("div", { class: "briefs" },
      phraseList(`${shortDay(DATA.target, false)} in brief, as forecast`, country.brief, "There is no forecast for this day."),
      phraseList(`${shortDay(DATA.origin, false)} in brief, as reported`, country.latest, "Nothing is known of this day.")),
    kindsKey([...country.brief, ...country.latest].map((phrase) => phrase[2])),
    country.probabilities.length > 0 && probabilities(country),
    timeline(country),
    shareCharts(country),
    country.events.length > 0 && part("Who may do what to whom", eventList(country.events)),
    country.fan && part("The fan of futures", fanChart(country, paper)));
}
