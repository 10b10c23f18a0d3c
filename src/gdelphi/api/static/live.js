"use strict";
// Asks every minute; the browser sends the ETag along, so an unchanged answer costs a few bytes.
const EVERY = 60_000;
const QUESTION = "/api/forecasts/latest/probabilities?target=headline&horizon=week&order=above+usual&limit=10";
let shown = "";

// As everywhere: thousandths, halves up, then whole per cent; never 0% or 100%.
function percent(value) {
  if (value === null) return "–";
  const rounded = Math.floor(value * 1000 + 0.5);
  if (rounded < 5) return "<1%";
  return rounded >= 995 ? ">99%" : `${Math.floor((rounded + 5) / 10)}%`;
}

async function ask(address) {
  const answer = await fetch(address, { cache: "no-cache" });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.message);
  return content;
}

function row(cells) {
  const line = document.createElement("tr");
  for (const text of cells) line.insertCell().textContent = text;
  return line;
}

function showForecast(forecast, rows) {
  const lines = rows.map((one) => row([
    one.country, `${one.label} (${one.code})`, percent(one.published), percent(one.usual),
    `${percent(one.low)} to ${percent(one.high)}`,
  ]));
  document.getElementById("rows").replaceChildren(...lines);
  const frame = document.getElementById("report");
  frame.hidden = !forecast.report;
  if (forecast.report) frame.src = forecast.report;
  shown = forecast.id + forecast.report;
}

async function refresh() {
  const state = document.getElementById("state");
  try {
    const answer = await ask(QUESTION);
    const forecast = answer.forecast;
    if (forecast.id + forecast.report !== shown) showForecast(forecast, answer.rows);
    const status = await ask("/api/status");
    state.textContent = `From the news up to ${forecast.origin}, issued ${forecast.issued_at.slice(0, 16).replace("T", " ")} UTC. The store is ${status.verdict}.`;
  } catch (error) {
    state.textContent = `No answer: ${error.message}`;
  }
}

refresh();
setInterval(refresh, EVERY);
