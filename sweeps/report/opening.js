// What every page does first: unpacks the chart library, sets up the theme, says where its numbers come from.

async function load_library() {
  const code = new TextDecoder().decode(await inflate(bytes_of_base64(by_id('packed-library').textContent)));
  const script = document.createElement('script');
  script.textContent = code;
  document.head.append(script);
  if (typeof echarts === 'undefined') throw new Error('The chart library in this file is damaged.');
}

// `changed` is called after every switch of the theme but the first.
function setup_theme(changed) {
  const wish = window.matchMedia('(prefers-color-scheme: dark)');
  const set = (dark) => {
    state.dark = dark;
    apply_theme(dark ? 'dark' : 'light');
    by_id('theme').textContent = dark ? 'Light' : 'Dark';
    by_id('theme').setAttribute('aria-label', `Switch to the ${dark ? 'light' : 'dark'} theme`);
  };
  set(wish.matches);
  const change = (dark) => {
    set(dark);
    changed();
  };
  wish.addEventListener('change', (event) => change(event.matches));
  by_id('theme').addEventListener('click', () => change(!state.dark));
}

function show_failure(text) {
  by_id('failure').hidden = false;
  by_id('failure').textContent = text;
}

// Unpacks library and data, whose bytes `show` turns into the page; an error stands on it.
async function open_page(theme_changed, show) {
  setup_theme(theme_changed);
  try {
    const [, bytes] = await Promise.all([load_library(), inflate(bytes_of_base64(by_id('packed-data').textContent))]);
    await show(bytes);
    document.documentElement.dataset.painted = 'all';
  } catch (error) {
    by_id('subtitle').textContent = '';
    show_failure(error.message);
    throw error;
  }
}

// Where the numbers of a page come from; `command` made it. What says whether two pages can be compared stands in a
// line; the rest is folded.
function paint_provenance(provenance, command) {
  const show = (value) =>
    value !== null && typeof value === 'object' ? JSON.stringify(value, null, 1) : String(value ?? '');
  const entries = Object.entries(provenance);
  const is_long = ([, value]) => show(value).length > 80;
  const word = (key) => key.replaceAll('_', ' ');
  const first = ['version', 'commit', 'signature', 'date']
    .filter((key) => provenance[key])
    .map((key) => `${word(key)} ${show(provenance[key])}`);
  fill(
    by_id('provenance'),
    h('h2', 'Where these numbers come from'),
    h('p', `Made by fp4sim ${command}${first.length ? `: ${first.join(', ')}` : ''}.`),
    h(
      'details',
      h('summary', 'Everything that is known of the run'),
      h(
        'dl.provenance',
        entries
          .filter((entry) => !is_long(entry))
          .map(([key, value]) => h('div', h('dt', word(key)), h('dd', show(value)))),
      ),
      entries
        .filter(is_long)
        .map(([key, value]) => [
          h('h3', word(key)),
          h('pre.provenance-text', {tabindex: 0, role: 'region', 'aria-label': word(key)}, show(value)),
        ]),
    ),
    h(
      'p.quiet.small',
      `Charts: Apache ECharts ${echarts.version} (Apache License 2.0), inside this file. The page loads nothing from anywhere.`,
    ),
  );
}
