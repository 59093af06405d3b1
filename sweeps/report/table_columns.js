// The columns of the table and of its CSV: of configurations, or of single runs.

// Columns of the view: {title, number, get(row), text(row), csv}. Rows are points, or rows of the runs table.
// long: a list of columns, a row each
function table_columns() {
  const {model} = state;
  const axes = varied_axes();
  const run = (name) => model.get('runs', name);
  const axis_columns = axes.map((axis) => ({
    key: axis.name,
    title: axis.label,
    hint: axis.name,
    get: (row) => axis.values[axis.codes[row_point(row)]],
  }));
  const costs = model.columns
    .filter((column) => column.kind === 'cost' && has_values(column))
    .map((column) => ({
      key: column.name,
      title: column_title(column),
      hint: column.doc,
      number: true,
      get: (row) => column.mean[row_point(row)],
      text: (row) => value_text(column, column.mean[row_point(row)], 4),
    }));
  const status = {
    key: 'status',
    title: 'status',
    get: (row) => state_order.indexOf(model.states[row_point(row)]),
    csv: (row) => model.states[row_point(row)],
    state: true,
  };
  const hash = {key: 'config_hash', title: 'hash', get: (row) => model.hash[row_point(row)], mono: true};
  const task = {key: 'task', title: 'task', get: (row) => words_at(model.task, row_point(row)), hidden: true};
  const name = {
    key: 'name',
    title: 'name',
    get: (row) => words_at(model.name, row_point(row)),
    hidden: !context_points().some((i) => shown_name(model, i)),
  };
  if (table.view === 'points') {
    const ranks = new Map(front_rows().points.map((point, k) => [point, k + 1]));
    const qualities = model.columns
      .filter((column) => column.kind === 'quality' && has_values(column))
      .flatMap((column) => [
        {
          key: column.name,
          title: column_title(column),
          hint: column.doc,
          number: true,
          get: (row) => column.mean[row],
          text: (row) => mean_text(column, row),
          extra: (row) =>
            spread_text((v) => value_text(column, v, 2), column.mean[row], column.low[row], column.high[row]).trim(),
        },
        {key: column.name + '_low', hidden: true, get: (row) => column.low[row]},
        {key: column.name + '_high', hidden: true, get: (row) => column.high[row]},
      ]);
    const count = (key, values) => ({
      key,
      title: key,
      number: true,
      get: (row) => values[row],
      text: (row) => String(values[row]),
    });
    const main = (list) => list.filter((column) => column.key === state.x || column.key === state.y);
    const other = (list) => list.filter((column) => column.key !== state.x && column.key !== state.y);
    const rank = {
      key: 'front_number',
      title: 'front',
      hint: 'number in the list of the front',
      number: true,
      get: (row) => ranks.get(row) ?? NaN,
      text: (row) => String(ranks.get(row) ?? ''),
    };
    return [
      status,
      rank,
      task,
      name,
      ...main(costs),
      ...main(qualities),
      ...axis_columns,
      ...other(costs),
      ...other(qualities),
      count('seeds', model.seeds),
      count('diverged', model.diverged),
      hash,
    ];
  }
  const qualities = model.columns
    .filter((column) => column.kind === 'quality' && run(column.name).some(Number.isFinite))
    .map((column) => ({
      key: column.name,
      title: column_title(column),
      number: true,
      get: (row) => run(column.name)[row],
      text: (row) => value_text(column, run(column.name)[row], 5),
    }));
  const word = (key) => ({key, title: key, get: (row) => words_at(run(key), row)});
  return [
    // In the file in the order of table.csv; on the screen the results come first.
    ...axis_columns.map((column) => ({...column, late: true})),
    task,
    name,
    {key: 'seed', title: 'seed', number: true, get: (row) => run('seed')[row], text: (row) => String(run('seed')[row])},
    word('status'),
    word('role'),
    ...qualities,
    ...costs,
    {...word('digest'), mono: true},
    {
      key: 'seconds',
      title: 'seconds',
      number: true,
      get: (row) => run('seconds')[row],
      text: (row) => significant(run('seconds')[row]),
    },
    hash,
  ];
}
