// The two kinds of charts of a service's page: points and lines in a plane, and marks on rows.

// Linear, or logarithmic where the values spread over more than a factor of ten; all of them have to be above zero.
function service_axis(values, unit, name, theme) {
  const known = values.filter((v) => Number.isFinite(v) && v > 0);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const log = unit !== 'share' && known.length > 0 && most / least > 10;
  return {
    type: log ? 'log' : 'value',
    scale: true,
    ...(log ? {min: Number((least / 1.3).toPrecision(2)), max: Number((most * 1.3).toPrecision(2))} : {}),
    ...axis_name(log ? `${name} (log)` : name, undefined, {color: theme.quiet, fontSize: 12}),
    axisLabel: {color: theme.quiet, fontSize: 11, formatter: (v) => tick_text({unit}, v)},
    axisLine: {show: true, lineStyle: {color: theme.strong_line}},
    splitLine: {lineStyle: {color: theme.line}},
  };
}

const dashed_lines = (at, theme) =>
  marks_at(
    at,
    {color: theme.strong_line, type: 'dashed'},
    {color: theme.quiet, fontSize: 11, formatter: ({name}) => name},
  );

// points: [{x, y, x_ends, y_ends, name, colour, symbol, size, label, position, lines}]; paths: [[points of one line, in order]];
// marks: [{y, name}] as dashed lines. `lines` are those of the tooltip.
// long: one object, as the chart library takes it
function plane_option({points, paths = [], marks = [], x_name, y_name}, theme) {
  const ends = (key) => points.flatMap((p) => [p[key], ...(p[`${key}_ends`] ?? [])]);
  const whiskers = (key, line) =>
    points.flatMap((p) => ((p[`${key}_ends`] ?? []).length ? line(p, ...p[`${key}_ends`]) : []));
  const y_axis = service_axis(ends('y'), 'share', y_name, theme);
  const levels = [...ends('y'), ...marks.map(({y}) => y)].filter(Number.isFinite);
  const whisker = {color: theme.neutral, width: 1.5};
  const room = 0.08 * (Math.max(...levels) - Math.min(...levels) || 0.01);
  return {
    grid: {left: 78, right: 60, top: 14, bottom: 50},
    tooltip: tooltip(theme, 'item', ({data: {point}}) => [point.name, point.lines.map((text) => h('p.small', text))]),
    xAxis: {...service_axis(ends('x'), '', x_name, theme), nameGap: 28, splitLine: {show: false}},
    yAxis: {
      ...y_axis,
      axisLabel: {...y_axis.axisLabel, showMinLabel: false, showMaxLabel: false},
      nameGap: 58,
      min: Math.min(...levels) - room,
      max: Math.min(1, Math.max(...levels) + room),
    },
    series: [
      plain_line(
        whiskers('x', (p, low, high) => stroke([low, p.y], [high, p.y])),
        whisker,
        {
          markLine: dashed_lines(
            marks.map(({y, name}) => ({yAxis: y, name})),
            theme,
          ),
        },
      ),
      plain_line(
        whiskers('y', (p, low, high) => stroke([p.x, low], [p.x, high])),
        whisker,
      ),
      ...paths.map((path) =>
        plain_line(
          path.map((p) => [p.x, p.y]),
          {color: path[0].colour, width: 1.5},
        ),
      ),
      {
        type: 'scatter',
        z: 4,
        data: points.map((point) => ({
          value: [point.x, point.y],
          point,
          symbol: point.symbol ?? 'circle',
          symbolSize: point.size ?? 9,
          itemStyle: {color: point.colour},
          label: {
            show: !!point.label,
            formatter: () => point.label,
            position: point.position,
            color: theme.ink,
            fontSize: 11,
          },
        })),
      },
    ],
  };
}

// rows: [{name, values: one a mark, ends: [low, high] of the last mark or nothing}]; marks: [{name, symbol, colour}];
// at: [{x, name}] as dashed lines.
function rows_option({rows, marks, at = [], unit, x_name}, theme) {
  const all = rows.flatMap((row) => [...row.values, ...(row.ends ?? [])]);
  const text = (value) => value_text({unit}, value) + (unit === 'share' ? '' : ` ${unit}`);
  return {
    grid: {left: 138, right: 34, top: 24, bottom: 50},
    tooltip: tooltip(theme, 'item', ({data: {row}}) => [
      row.name,
      marks.map((mark, k) => h('p.small', `${mark.name}: ${text(row.values[k])}`)),
      row.ends?.length ? h('p.small', `interval: ${text(row.ends[0])} to ${text(row.ends[1])}`) : null,
    ]),
    xAxis: {...service_axis([...all, ...at.map(({x}) => x)], unit, x_name, theme), nameGap: 28},
    yAxis: row_axis(
      rows.map((row) => row.name),
      {width: 128, color: theme.ink, fontSize: 12},
    ),
    series: [
      plain_line(
        rows.flatMap(({name, values}) => stroke([Math.min(...values), name], [Math.max(...values), name])),
        {color: theme.strong_line, width: 1.5},
        {
          markLine: dashed_lines(
            at.map(({x, name}) => ({xAxis: x, name})),
            theme,
          ),
        },
      ),
      plain_line(
        rows.flatMap(({name, ends}) => (ends ? stroke([ends[0], name], [ends[1], name]) : [])),
        {color: theme.ink, width: 3},
      ),
      ...marks.map((mark, k) => ({
        type: 'scatter',
        z: 4,
        symbol: mark.symbol,
        symbolSize: 11,
        itemStyle: {color: mark.colour},
        data: rows.map((row) => ({value: [row.values[k], row.name], row})),
      })),
    ],
  };
}
