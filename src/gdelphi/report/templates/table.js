// Tables that sort by a click on a header, and the filter of the table of countries.
function valueOf(row, column, kind) {
  const raw = row.cells[column].dataset.value ?? row.cells[column].textContent;
  if (kind === "text") return raw.toLocaleLowerCase();
  return raw === "" ? null : Number(raw);
}

function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null); // unknown is always last
  return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
}

function sortable(table) {
  const heads = all("thead th", table);
  heads.forEach((head, column) => {
    const kind = head.dataset.sort;
    if (!kind) return;
    const button = h("button", { type: "button" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : kind === "number";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const body = table.tBodies[0], sign = descending ? -1 : 1;
      const rows = [...body.rows].map((row) => [valueOf(row, column, kind), row]);
      rows.sort(([a], [b]) => compare(a, b, sign));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

function startTable() {
  const table = one("table.countries"), box = one(".filter"), watched = one(".only-watched");
  sortable(table);
  const rows = [...table.tBodies[0].rows];
  const plain = (text) => text.toLocaleLowerCase().normalize("NFD").replace(/\p{M}/gu, "");
  const texts = new Map(rows.map((row) => [row, plain(`${row.dataset.find} ${row.textContent}`).split(/[^\p{L}\p{N}]+/u)]));
  if (rows.every((row) => "watched" in row.dataset) || !rows.some((row) => "watched" in row.dataset)) {
    watched.parentElement.hidden = true;
  }
  const filter = () => {
    const words = plain(box.value).split(/[^\p{L}\p{N}]+/u).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).some((part) => part.startsWith(word))) && (!watched.checked || "watched" in row.dataset);
      row.hidden = !fits;
      shown += fits;
    }
    one(".count").textContent = shown === rows.length ? `${shown} countries` : `${shown} of ${rows.length} countries`;
  };
  box.addEventListener("input", filter);
  watched.addEventListener("change", filter);
  one(".table-controls").hidden = false;
  filter();
  const surge = all("thead th", table)[1].querySelector("button");
  if (DATA.forecast) surge.click();
}
