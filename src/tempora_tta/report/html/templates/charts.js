// Vega charts in the page's own colours, drawn again when the reader's system turns light or dark.

const darkMode = window.matchMedia("(prefers-color-scheme: dark)");
const drawn = new Map();

function chartTheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const text = { labelColor: colour("--soft"), titleColor: colour("--soft"), labelFont: "inherit", titleFont: "inherit" };
  const font = style.getPropertyValue("--sans");
  return {
    background: null, font, text: { fill: colour("--ink") }, view: { stroke: null },
    axis: { ...text, labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, gridColor: colour("--line"), domainColor: colour("--faint"), tickColor: colour("--faint"), titlePadding: 10 },
    axisQuantitative: { labelOverlap: "greedy", labelSeparation: 3 }, // on a phone, fewer numbers rather than "4050"
    axisX: { labelBound: 6 }, // and none that the edge would cut
    legend: { labelColor: colour("--soft"), labelFont: font, labelFontSize: 12, symbolType: "square" },
  };
}

// Draw a chart into an element; `data` maps names of data sets to rows, `finding` says what it shows to readers
// who do not see it. Returns its Vega view.
async function draw(run, id, name, data, finding) {
  const element = document.getElementById(id);
  element.dataset.finding = finding;
  const known = drawn.get(id);
  if (known && known.name === name && known.dark === darkMode.matches) {
    known.data = data;
    const view = await known.view;
    feed(view, data);
    describe(element);
    return view;
  }
  const spec = inColours(run, { ...run.charts[name], datasets: { ...run.charts[name].datasets, ...data } });
  const options = { actions: false, renderer: "svg", config: chartTheme(), tooltip: { theme: darkMode.matches ? "dark" : "light" } };
  const view = vegaEmbed(element, spec, options).then((result) => {
    describe(element);
    element.view = result.view; // for the console, and for tests
    return result.view;
  });
  drawn.set(id, { run, name, data, view, dark: darkMode.matches });
  return view;
}

// The charts that Python drew whole.
function drawWhole(run) {
  for (const element of document.querySelectorAll("[data-chart]")) draw(run, element.id, element.dataset.chart, {}, element.getAttribute("aria-label"));
}

// On dark paper methods have their other colours.
function inColours(run, spec) {
  if (!darkMode.matches) return spec;
  const swap = new Map(run.methods.map((method) => [method.colour, method.dark]));
  return JSON.parse(JSON.stringify(spec), (_, value) => swap.get(value) ?? value);
}

// Vega calls every chart "Vega visualization"; its marks would only be noise to a screen reader.
function describe(element) {
  element.removeAttribute("aria-roledescription");
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", element.dataset.finding);
  element.querySelector("svg")?.setAttribute("aria-hidden", "true");
}

function feed(view, data) {
  for (const [name, rows] of Object.entries(data)) view.data(name, rows);
  view.runAsync();
}

const methodColour = (run, method) => run.methods[method][darkMode.matches ? "dark" : "colour"];
// As tempora_tta._numbers: sums in another order end in other last digits, which must not tip a number over an edge.
const hundredths = (fraction, digits) => Number((100 * fraction).toFixed(9)).toFixed(digits);
const percent = (fraction, digits = 1) => `${hundredths(fraction, digits)} %`;
const rangeText = (lo, hi) => (hi > lo ? `${percent(lo)} to ${percent(hi)}` : "–");
