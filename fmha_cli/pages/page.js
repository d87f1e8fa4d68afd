const page = JSON.parse(document.getElementById("fmha-data").textContent);

function unpackColumn(packed, count) {
  if (Array.isArray(packed)) return packed;
  if (packed.steps) { let sum = 0; return packed.steps.map(step => (sum += step)); }
  if (packed.at) return packed.at.map(place => packed.of[place]);
  return packed.of.flatMap((value, place) => Array(packed.runs[place]).fill(value));
}

function unpack(packed) {
  const columns = Object.entries(packed.columns).map(([name, column]) => [name, unpackColumn(column, packed.n)]);
  return Array.from({ length: packed.n }, (_, n) => Object.fromEntries(columns.map(([name, values]) => [name, values[n]])));
}

const rows = unpack(page.rows);
const byNumber = new Map(rows.map(row => [row.row, row]));
const dark = matchMedia("(prefers-color-scheme: dark)");
const data = new Map(page.plots.map(plot =>
  [plot.id, Object.fromEntries(Object.entries(plot.data).map(([name, packed]) => [name, unpack(packed)]))]));
const chosen = new Map();
const views = new Map();

async function draw() {
  const root = document.documentElement;
  root.dataset.drawn = "no";
  for (const plot of page.plots) {
    views.set(plot.id, []);
    for (const [number, panel] of plot.panels.entries()) {
      const spec = structuredClone(panel);
      spec.datasets = { rows, ...data.get(plot.id) };
      spec.autosize = { type: "fit-x", contains: "padding" };
      for (const param of spec.params ?? []) if (chosen.has(param.name)) param.value = chosen.get(param.name);
      const element = document.getElementById(`${plot.id}-${number}`);
      const done = await vegaEmbed(element, spec, {
        mode: "vega-lite", renderer: "svg", downloadFileName: plot.id, config: dark.matches ? page.dark : page.light,
        actions: { export: true, source: false, compiled: false, editor: false },
        tooltip: { theme: dark.matches ? "dark" : "light" },
      });
      done.view.addEventListener("click", (_, item) => { if (item?.datum?.row) pick(item.datum.row); });
      views.get(plot.id).push(done.view);
    }
  }
  root.dataset.drawn = "yes";
}

function set(signal, value) {
  chosen.set(signal, value);
  for (const plot of page.plots) if (plot.signal === signal) for (const view of views.get(plot.id) ?? []) view.signal(signal, value).runAsync();
}

for (const select of document.querySelectorAll("select[data-signal]")) {
  select.addEventListener("change", () => set(select.dataset.signal, Number(select.value)));
}

const bar = document.getElementById("picked");

function pick(number) {
  const row = byNumber.get(number);
  if (!row) return;
  bar.hidden = false;
  bar.querySelector("span").textContent = `row ${number}`;
  bar.querySelector("code").textContent = row.again;
  for (const line of document.querySelectorAll("tr[data-row]")) line.classList.toggle("picked", line.dataset.row === String(number));
  const select = document.querySelector("select[data-signal=chosen]");
  if (select && [...select.options].some(option => option.value === String(number))) { select.value = number; set("chosen", number); }
}

bar.querySelector("button").addEventListener("click", async event => {
  const text = bar.querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    event.target.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(bar.querySelector("code"));
  }
});

const natural = new Intl.Collator("en", { numeric: true });

function compareCells(column, a, b) {
  const keys = column.keys ?? (column.number ? column.cells.map(cell => (cell === "" ? null : parseFloat(cell))) : null);
  if (!keys) return column.cells[a] === column.cells[b] ? 0 : column.cells[a] === "" ? 2 : column.cells[b] === "" ? -2 : natural.compare(column.cells[a], column.cells[b]);
  const [x, y] = [keys[a], keys[b]];
  if (x === y) return 0;
  return x === null ? 2 : y === null ? -2 : x - y < 0 ? -1 : 1;
}

function buildTable(packed) {
  const columns = packed.columns.map(column =>
    ({ ...column, cells: unpackColumn(column.cells, packed.count), keys: column.keys && unpackColumn(column.keys, packed.count) }));
  if (packed.again) columns.push({ header: "again", number: false, code: true, keys: null, cells: rows.map(row => row.again) });
  const section = document.getElementById(packed.id);
  const [table, input, count] = ["table", "input", "output"].map(name => section.querySelector(name));
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  const lines = Array.from({ length: packed.count }, (_, n) => {
    const line = body.insertRow();
    if (packed.again) { line.dataset.row = rows[n].row; line.addEventListener("click", () => pick(rows[n].row)); }
    for (const column of columns) {
      const cell = line.insertCell();
      if (column.number) cell.className = "number";
      (column.code ? cell.appendChild(document.createElement("code")) : cell).textContent = column.cells[n];
    }
    return line;
  });
  const texts = lines.map((_, n) => columns.map(column => column.cells[n]).join(" ").toLowerCase());
  const tell = shown => { count.textContent = `${shown.toLocaleString("en")} of ${lines.length.toLocaleString("en")} rows`; };
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    lines.forEach((line, n) => { line.hidden = !words.every(word => texts[n].includes(word)); shown += !line.hidden; });
    tell(shown);
  });
  tell(lines.length);
  for (const column of columns) {
    const cell = document.createElement("th");
    if (column.number) cell.className = "number";
    const button = cell.appendChild(document.createElement("button"));
    button.type = "button";
    button.textContent = column.header;
    button.addEventListener("click", () => {
      const falling = cell.getAttribute("aria-sort") === "ascending";
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const order = lines.map((_, n) => n).sort((a, b) => {
        const found = compareCells(column, a, b);
        return Math.abs(found) === 2 ? found : falling ? -found : found;
      });
      body.append(...order.map(n => lines[n]));
    });
    head.append(cell);
  }
}

page.tables.forEach(buildTable);
dark.addEventListener("change", draw);
await draw();
