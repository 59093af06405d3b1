// Unpacks library and data, sets the page up, and draws: what is on the first screen at once, the rest right after.

// The page of a running sweep reads its file again; the place behind '#' keeps the view.
function read_again(seconds) {
  if (!(seconds > 0)) return;
  by_id('live').hidden = false;
  by_id('live').textContent =
    `The sweep is running: this page reads its file again every ${significant(seconds, 3)} s.`;
  setInterval(() => {
    if (!document.querySelector('.filter[open]')) location.reload();
  }, 1000 * seconds);
}

function setup_sections() {
  setup_summary();
  setup_filters();
  setup_scatter();
  setup_multiples();
  on_change('task pins panel theme', paint_panel);
  on_change('task pins theme size', paint_costs, true);
  setup_against();
  setup_effects();
  setup_forest();
  on_change('task', paint_chips);
  setup_heat();
  setup_table();
  setup_exports();
  // Another link into the same page; '#effects' and the like only scroll.
  window.addEventListener('hashchange', () => {
    if (location.hash.includes('=')) location.reload();
  });
  let width = window.innerWidth,
    timer = 0;
  window.addEventListener('resize', () => {
    if (window.innerWidth === width) return; // a phone's address bar changes only the height
    width = window.innerWidth;
    clearTimeout(timer);
    timer = setTimeout(() => refresh('size'), 120);
  });
}

async function show_sweep(bytes) {
  state.pack = read_pack(bytes);
  const model = chip_model(state.pack, 0);
  state.model = model;
  Object.assign(state, {
    x: model.head.x,
    y: model.head.y,
    context: [...model.context.values].sort(natural_order)[0] ?? '',
  });
  recall_place();
  read_again(model.head.reload_seconds);
  by_id('title').textContent = model.head.name;
  document.title = `${model.head.name} · fp4sim report`;
  if (!model.count) {
    show_failure('This sweep has no configuration to show yet.');
    paint_provenance(model.head.provenance, 'report');
    return;
  }
  by_id('main').hidden = false;
  setup_sections();
  // Everything below the first screen waits until that is on the glass.
  for (const {paint, later} of painters) if (!later) paint();
  await new Promise((done) => setTimeout(done, 0));
  document.documentElement.dataset.painted = 'first';
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  for (const {paint, later} of painters) if (later) paint();
}

async function start() {
  await open_page(() => {
    if (state.model) refresh('theme');
  }, show_sweep);
}
