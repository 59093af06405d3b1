// Controls above the chart: choices of x, y, colour and scale, and one menu per axis to filter by, with counts.

function select_box(id, label, options, value, change) {
  const box = h('select', {id, onchange: () => change(box.value)});
  for (const option of options) {
    const target = option.group ? h('optgroup', {label: option.group}) : box;
    for (const [word, text] of option.items ?? [[option.value, option.text]])
      target.append(h('option', {value: word, selected: word === value}, text));
    if (option.group) box.append(target);
  }
  return h('label.choice', {for: id}, h('span', label), box);
}

// Buttons of which one is pressed; options: [value, text].
const segments = (options, current, choose) =>
  options.map(([value, text]) =>
    h('button', {'aria-pressed': String(value === current), onclick: () => choose(value)}, text),
  );

function column_options(kinds) {
  const names = {cost: 'Cost', quality: 'Quality'};
  return kinds
    .map((kind) => ({
      group: names[kind],
      items: state.model.columns
        .filter((column) => column.kind === kind && has_values(column))
        .map((column) => [column.name, column_title(column)]),
    }))
    .filter((group) => group.items.length);
}

const has_values = (column) =>
  [state.model.head.x, state.model.head.y].includes(column.name) ||
  column.mean.some(Number.isFinite) ||
  [...(column.low ?? [])].some(Number.isFinite);

function varied_axes() {
  const {model} = state;
  const points = context_points().filter((i) => !model.baseline[i]);
  return model.axes.filter((axis) => new Set(points.map((i) => axis.codes[i])).size > 1);
}

function paint_controls() {
  const change =
    (key, also = {}) =>
    (value) => {
      Object.assign(state, {[key]: value, ...also});
      refresh('view');
    };
  const scales = [
    {value: 'auto', text: 'auto'},
    {value: 'linear', text: 'linear'},
    {value: 'log', text: 'signed log'},
  ];
  fill(
    by_id('controls'),
    select_box('choose-x', 'x', column_options(['cost', 'quality']), state.x, change('x', {range: null, wide: false})),
    select_box('choose-x-scale', 'x scale', scales, state.x_scale, change('x_scale', {range: null, wide: false})),
    select_box('choose-y', 'y', column_options(['quality', 'cost']), state.y, change('y', {range: null, wide: false})),
    select_box('choose-y-scale', 'y scale', scales, state.y_scale, change('y_scale', {range: null, wide: false})),
    select_box(
      'choose-colour',
      'colour',
      [
        {value: 'status', text: 'front status'},
        {group: 'Axis', items: varied_axes().map((axis) => ['axis ' + axis.name, axis.name])},
        ...column_options(['quality', 'cost']),
      ],
      state.colour,
      change('colour'),
    ),
    select_box(
      'choose-intervals',
      'intervals',
      [
        {value: 'front', text: 'front and baselines'},
        {value: 'all', text: 'all points'},
        {value: 'none', text: 'none'},
      ],
      state.intervals,
      change('intervals'),
    ),
  );
}

function clear_button(text, clear, id) {
  const onclick = () => {
    clear();
    refresh('filter');
  };
  return h('button.plain', {id, onclick}, text);
}

// One menu: a button that opens a list of check boxes. Nothing ticked means no restriction.
function filter_menu(facet, title, hint, rows, counts) {
  const ticked = state.filters.get(facet) ?? new Set();
  const toggle = (code, on) => {
    const next = new Set(state.filters.get(facet) ?? []);
    if (on) next.add(code);
    else next.delete(code);
    state.filters.set(facet, next);
    refresh('filter');
  };
  const chosen = rows.filter((row) => ticked.has(row.code)).map((row) => row.text);
  const summary = h(
    'summary',
    {title: hint},
    h('span', title),
    chosen.length ? h('b', chosen.length > 2 ? `${chosen.length} values` : chosen.join(', ')) : null,
  );
  const list = rows.map((row) =>
    h(
      'label.tick',
      h('input', {
        type: 'checkbox',
        checked: ticked.has(row.code),
        'data-value': row.text,
        onchange: (event) => toggle(row.code, event.target.checked),
      }),
      row.icon ?? null,
      h('span.tick-text', row.text),
      row.mark ? h('i.quiet', row.mark) : null,
      h('span.count', (counts.get(row.code) ?? 0).toLocaleString('en')),
    ),
  );
  const clear = chosen.length ? clear_button('Clear', () => state.filters.delete(facet)) : null;
  return h(
    'details',
    {
      class: chosen.length ? 'filter active' : 'filter',
      'data-facet': facet === 'status' ? 'status' : state.model.axes[facet].name,
      onkeydown: (event) => {
        if (event.key !== 'Escape') return;
        event.currentTarget.open = false;
        event.currentTarget.querySelector('summary').focus();
      },
    },
    summary,
    h('div.menu', hint ? h('p.quiet.small', hint) : null, list, clear),
  );
}

function paint_filters() {
  const {model} = state;
  const {visible, counts} = current_selection(true);
  const all = context_points();
  const place = by_id('filters');
  const open = place.querySelector('details[open]')?.dataset.facet;
  const focused = document.activeElement?.dataset?.value;
  const states = state_order.filter((word) => all.some((i) => model.states[i] === word));
  const menus = [
    filter_menu(
      'status',
      'status',
      '',
      states.map((word) => ({code: word, text: state_words[word], icon: state_icon(word)})),
      counts.get('status'),
    ),
  ];
  const used = new Map(model.axes.map((axis) => [axis, new Set(all.map((i) => axis.codes[i]))]));
  const varied = varied_axes();
  model.axes.forEach((axis, index) => {
    if (!varied.includes(axis)) return;
    const rows = axis.order
      .filter((code) => used.get(axis).has(code))
      .map((code) => ({
        code,
        text: axis.values[code] || 'not applicable',
        mark: axis.values[code] === axis.reference && axis.reference ? 'base' : '',
      }));
    menus.push(
      filter_menu(index, axis.label, axis.doc ? `${axis.name}: ${axis.doc}` : axis.name, rows, counts.get(index)),
    );
  });
  const restricted = visible.length < all.length;
  fill(
    place,
    h('span.filters-title', 'Filter'),
    ...menus,
    h(
      'span.shown',
      {id: 'shown-count'},
      (restricted ? `${visible.length.toLocaleString('en')} of ` : '') + plural(all.length, 'configuration'),
    ),
    restricted ? clear_button('Clear all', () => state.filters.clear(), 'clear-filters') : null,
  );
  if (open) {
    const again = [...place.querySelectorAll('details')].find((menu) => menu.dataset.facet === open);
    if (again) again.open = true;
    if (again && focused !== undefined)
      [...again.querySelectorAll('input')].find((box) => box.dataset.value === focused)?.focus();
  }
  keep_menus_apart(place);
}

// At most one menu is open, and a click elsewhere closes it.
function keep_menus_apart(place) {
  for (const menu of place.querySelectorAll('details'))
    menu.addEventListener('toggle', () => {
      if (!menu.open) return;
      for (const other of place.querySelectorAll('details[open]')) if (other !== menu) other.open = false;
      const list = menu.querySelector('.menu');
      list.style.left = '0px';
      const over = list.getBoundingClientRect().right - document.documentElement.clientWidth + 12;
      if (over > 0) list.style.left = `${-over}px`;
    });
}

// Folded unless a link chose something in them.
function unfold_choices() {
  const {x, y, colour, x_scale, y_scale, intervals, filters, model} = state;
  const usual = x === model.head.x && y === model.head.y && colour === state.usual_colour && !filters.size;
  by_id('choices').open = !(usual && x_scale === 'auto' && y_scale === 'auto' && intervals === 'front');
}

function setup_filters() {
  unfold_choices();
  on_change('task view theme', paint_controls);
  on_change('task filter', paint_filters);
  document.addEventListener('click', (event) => {
    for (const menu of document.querySelectorAll('.filters details[open]'))
      if (!menu.contains(event.target)) menu.open = false;
  });
}
