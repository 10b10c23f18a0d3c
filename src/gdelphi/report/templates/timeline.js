// What was published of the last judged days, and what came: a line of headlines for each kind.
function timelineChart(country, line) {
  const [code, said, came] = line, count = said.length;
  const x = (number) => 4 + (212 * number) / Math.max(count - 1, 1);
  const y = (value) => 58 - (50 * value) / 1000;
  const times = came.filter(Boolean).length, known = came.filter((value) => value !== null).length;
  const marks = came.map((value, number) => (value === null ? null : s("circle", {
    class: value ? "came" : "not-came", cx: x(number).toFixed(1), cy: value ? 8 : 58, r: value ? 2.6 : 1.2 })));
  const expected = said.reduce((sum, value) => sum + (value ?? 0), 0) / 1000;
  const words = `${label(code)}: came on ${times} of ${known} days, ${expected.toFixed(1)} were expected`;
  const svg = s("svg", { class: "timeline", viewBox: "0 0 220 66", role: "img", "aria-label": words },
    s("line", { class: "grid", x1: 4, x2: 216, y1: 8, y2: 8 }), s("line", { class: "grid", x1: 4, x2: 216, y1: 58, y2: 58 }),
    s("path", { d: pathOf(said, x, y) }), marks);
  return h("figure", {}, h("figcaption", {}, bdi(label(code)), h("span", { class: "quiet" }, ` came ${times} of ${known}, expected ${expected.toFixed(1)}`)), svg,
    savingOf(country, svg, `timeline-${DATA.codes[code][0]}`, words));
}

function timeline(country) {
  const days = DATA.judged;
  if (!country.timeline || !days) return null;
  const told = days.backtest ? "of a backtest, not of published forecasts" : "as they were published";
  return h("div", { class: "past-said" }, h("h4", {}, "What was said, and what came"),
    h("p", { class: "quiet" }, `Headlines of conflict, ${told}: ${days.days.length} judged days from ${shortDay(days.days[0])} to ${shortDay(days.days[days.days.length - 1])}. Line: the probability, from 0 below to 100% above. Dots above: it came; small dots below: it did not.`),
    h("div", { class: "multiples" }, country.timeline.map((line) => timelineChart(country, line))));
}
