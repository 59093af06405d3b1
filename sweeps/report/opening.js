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

// Where the numbers of a page come from; `command` made it.
function paint_provenance(provenance, command) {
  const show = (value) => (value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value));
  fill(
    by_id('provenance'),
    h('h2', {}, 'Where these numbers come from'),
    h(
      'dl',
      {class: 'provenance'},
      Object.entries(provenance).map(([key, value]) =>
        h('div', {}, h('dt', {}, key.replaceAll('_', ' ')), h('dd', {}, show(value))),
      ),
    ),
    h(
      'p',
      {class: 'quiet small'},
      `Made by fp4sim ${command}. Charts: Apache ECharts ${echarts.version} (Apache License 2.0), inside this file. The page loads nothing from anywhere.`,
    ),
  );
}
