// Opening countries: by click, by the address's hash, by the list, one after another; and all on paper.
function open(index, { scroll = true, push = true } = {}) {
  const country = DATA.countries[index];
  if (!country) return;
  state.index = index;
  one("#country").replaceChildren(drawCountry(country));
  one(".choose-country").value = String(index);
  for (const mark of all("tr[data-index]")) mark.classList.toggle("current", Number(mark.dataset.index) === index);
  const shape = one(`a.land[data-index="${index}"] path`);
  one(".outlined").setAttribute("d", shape ? shape.getAttribute("d") : "");
  if (push && location.hash !== country.anchor) history.replaceState(null, "", country.anchor);
  if (scroll) one("#section-country").scrollIntoView();
}

function fromHash() {
  const index = DATA.countries.findIndex((country) => country.anchor === location.hash || sameHash(country.anchor));
  if (index >= 0) open(index, { push: false });
  return index >= 0;
}
function sameHash(anchor) {
  try { return decodeURIComponent(anchor) === decodeURIComponent(location.hash); } catch { return false; }
}

function step(by) {
  const count = DATA.countries.length;
  open((state.index + by + count) % count);
}

function startCountries() {
  if (!DATA.countries.length) return;
  const choose = one(".choose-country");
  DATA.countries.forEach((country, index) => choose.append(h("option", { value: index }, country.name)));
  choose.addEventListener("change", () => open(Number(choose.value)));
  one(".previous").addEventListener("click", () => step(-1));
  one(".next").addEventListener("click", () => step(1));
  one(".country-controls").hidden = false;
  window.addEventListener("hashchange", fromHash);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const target = link && link.getAttribute("href");
    if (target && target === location.hash) fromHash(); // a second click on the open country
  });
  if (fromHash()) return;
  const first = one(".changes h4 a");
  const index = first ? DATA.countries.findIndex((country) => country.anchor === first.getAttribute("href")) : 0;
  open(Math.max(index, 0), { scroll: false, push: false });
}

// On paper there are two pages, the overview, in light colours; or, if asked for by the button, all
// countries, each on its own page. Finer codes are left to the tables.
window.addEventListener("beforeprint", () => {
  state.scheme ??= document.documentElement.className;
  document.documentElement.className = state.whole ? "light print-all" : "light";
  if (!state.whole) return;
  one("#country").classList.add("printed");
  one("#all-countries").replaceChildren(...DATA.countries.map((country) => drawCountry(country, true)));
  for (const details of all("main details:not(.finer)")) {
    details.wasOpen = details.open;
    details.open = true;
  }
});
window.addEventListener("afterprint", () => {
  document.documentElement.className = state.scheme ?? document.documentElement.className;
  state.scheme = null;
  one("#country").classList.remove("printed");
  one("#all-countries").replaceChildren();
  for (const details of all("main details")) details.open = details.wasOpen ?? details.open;
});

one(".print-all-countries").addEventListener("click", () => {
  state.whole = true;
  window.print();
  state.whole = false;
});

startMap();
startTable();
startSaving();
startCountries();
