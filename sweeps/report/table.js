// The table of the current selection: configurations or single runs; search, sort, pages, CSV download.

const table = {view: 'points', sort: null, descending: false, search: '', page: 0, size: 50, haystack: new Map()};

function search_text(point) {
  if (!table.haystack.has(point)) {
    const {model} = state;
    table.haystack.set(
      point,
      [
        words_at(model.name, point),
        state_words[model.states[point]],
        model.hash[point],
        ...model.axes.map((axis) => `${axis.label}=${axis.values[axis.codes[point]]}`),
      ]
        .join(' ')
        .toLowerCase(),
    );
  }
  return table.haystack.get(point);
}

// The point of a row.
const row_point = (row) => (table.view === 'points' ? row : state.model.get('runs', 'point')[row]);

// Every word of the search must occur.
function table_rows(columns) {
  const {model} = state;
  const words = table.search.toLowerCase().split(/\s+/).filter(Boolean);
  const points = current_selection().visible.filter((i) => words.every((word) => search_text(i).includes(word)));
  let rows = points;
  if (table.view === 'runs') {
    const wanted = new Set(points);
    rows = rows_with(model.tables.runs.rows, (row) => wanted.has(row_point(row)));
  }
  const column =
    columns.find((item) => item.key === table.sort) ??
    columns.find((item) => item.key === (table.view === 'points' ? state.y : 'status'));
  if (!column) return rows;
  const sign = table.descending ? -1 : 1;
  const keys = new Map(rows.map((row) => [row, column.get(row)]));
  // Unknown values last, whichever way.
  const unknown = (v) => v === '' || v === null || Number.isNaN(v);
  return [...rows].sort((i, j) => {
    const a = keys.get(i),
      b = keys.get(j);
    if (unknown(a) || unknown(b)) return unknown(a) - unknown(b);
    return sign * (typeof a === 'number' ? a - b : natural_order(a, b));
  });
}

function table_cell(column, row) {
  const {model} = state;
  if (column.state) {
    const word = model.states[row];
    return h('td', h('span.state-cell', state_icon(word), state_words[word]));
  }
  const text = column.text ? column.text(row) : column.get(row);
  const classes = [column.number ? 'number' : '', column.mono ? 'mono' : ''].filter(Boolean).join(' ');
  return h(
    'td',
    {class: classes || null},
    text === '' ? '–' : text,
    column.extra?.(row) ? h('span.quiet', ' ' + column.extra(row)) : null,
  );
}

// long: one table: its head, its rows and what their clicks do
function paint_table() {
  const {model} = state;
  const columns = table_columns();
  const rows = table_rows(columns);
  const pages = Math.max(1, Math.ceil(rows.length / table.size));
  table.page = Math.min(table.page, pages - 1);
  const visible = columns.filter((column) => !column.hidden);
  const shown = [...visible.filter((column) => !column.late), ...visible.filter((column) => column.late)];
  const sort_by = (column) => {
    table.descending = table.sort === column.key ? !table.descending : false;
    table.sort = column.key;
    table.page = 0;
    paint_table();
    by_id('table-scroll')
      .querySelector(`[data-key="${CSS.escape(column.key)}"]`)
      ?.focus();
  };
  const active = table.sort ?? (table.view === 'points' ? state.y : null);
  const head = h(
    'tr',
    h('th.pin-cell', h('span.only-spoken', 'pin')),
    shown.map((column) =>
      h(
        'th',
        {
          class: column.number ? 'number' : null,
          title: column.hint || null,
          'aria-sort': column.key === active ? (table.descending ? 'descending' : 'ascending') : null,
        },
        h(
          'button',
          {'data-key': column.key, onclick: () => sort_by(column)},
          column.title,
          h('span.arrow', {'aria-hidden': 'true'}, column.key === active ? (table.descending ? ' ▼' : ' ▲') : ''),
        ),
      ),
    ),
  );
  const body = rows.slice(table.page * table.size, (table.page + 1) * table.size).map((row) => {
    const point = row_point(row);
    const at = state.pins.indexOf(point);
    return h(
      'tr',
      {class: at >= 0 ? 'pinned' : null},
      h(
        'td.pin-cell',
        h(
          'button.pin-button',
          {
            'aria-pressed': String(at >= 0),
            title: at >= 0 ? 'Unpin' : 'Pin: show everything about it',
            'aria-label': `${at >= 0 ? 'Unpin' : 'Pin'} ${model.hash[point]}`,
            onclick: () => {
              if (at >= 0) return unpin(point);
              pin(point);
              by_id('explore').scrollIntoView({behavior: 'smooth'});
            },
          },
          at >= 0 ? String.fromCharCode(65 + at) : '○',
        ),
      ),
      shown.map((column) => table_cell(column, row)),
    );
  });
  fill(by_id('table-scroll'), h('table.data', h('thead', head), h('tbody', body)));
  const turn = (step) => () => {
    table.page += step;
    paint_table();
  };
  fill(
    by_id('table-pages'),
    h('button.plain', {disabled: table.page === 0, onclick: turn(-1)}, '← Previous'),
    h(
      'span',
      {id: 'table-count'},
      rows.length
        ? `${(table.page * table.size + 1).toLocaleString('en')}–${Math.min((table.page + 1) * table.size, rows.length).toLocaleString('en')} of ${plural(rows.length, table.view === 'points' ? 'configuration' : 'run')}`
        : 'Nothing matches',
    ),
    h('button.plain', {disabled: table.page >= pages - 1, onclick: turn(1)}, 'Next →'),
  );
  by_id('table-title').textContent = table.view === 'points' ? 'All configurations' : 'All runs';
}

function csv_of_selection() {
  const columns = table_columns();
  const cells = (row) => columns.map((column) => (column.csv ?? column.get)(row));
  return csv_text([columns.map((column) => column.key), ...table_rows(columns).map(cells)]);
}

function setup_table() {
  const search = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'Search names, values, hashes',
    'aria-label': 'Search the table',
    oninput: () => {
      table.search = search.value;
      table.page = 0;
      paint_table();
    },
  });
  const views = [
    ['points', 'Configurations'],
    ['runs', 'Runs'],
  ];
  const choice = h('div.segments', {role: 'group', 'aria-label': 'Rows'});
  const paint_segments = () =>
    fill(
      choice,
      segments(views, table.view, (view) => {
        Object.assign(table, {view, sort: null, descending: false, page: 0});
        paint_segments();
        paint_table();
      }),
    );
  paint_segments();
  by_id('table-controls').append(
    choice,
    search,
    h(
      'button.button',
      {
        id: 'download',
        onclick: () => {
          const clean = state.model.head.name.replace(/[^\w.-]+/g, '_') || 'report';
          download(`${clean}_${state.context}_${table.view}.csv`, csv_of_selection(), 'text/csv');
        },
      },
      'Download CSV',
    ),
    h('span.quiet.small', 'Filters above apply; the file holds all rows of the selection.'),
  );
  on_change('task view filter pins', paint_table, true);
}
