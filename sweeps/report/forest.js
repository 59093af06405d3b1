// Forest plots: a dot is a mean, a line its interval, the band what is too small to matter (delta). Here the
// comparisons of a study (its effects.csv), one plot for each task, paired differences with simultaneous intervals.

// The rows of a table of the page as objects, by the names of its columns.
function named_rows(table, words, numbers) {
  const get = (name) => state.model.get(table, name);
  return Array.from({length: state.model.tables[table]?.rows ?? 0}, (_, k) => ({
    ...Object.fromEntries(words.map((name) => [name, words_at(get(name), k)])),
    ...Object.fromEntries(numbers.map((name) => [name, get(name)[k]])),
  }));
}

const comparison_texts = ['group', 'name', 'task'];
const comparison_numbers = ['mean', 'low', 'high', 'delta'];

// Headings of groups and their rows, from top to bottom.
function forest_lines(rows) {
  const lines = [];
  for (const group of new Set(rows.map((row) => row.group)))
    lines.push(
      {header: true, text: group},
      ...rows.filter((row) => row.group === group).map((row) => ({...row, text: row.name})),
    );
  return lines;
}

const forest_verdict = (row) => (row.low > 0 ? 'worse' : row.high < 0 ? 'better' : 'not told apart from 0');

// `words`: column of the numbers, title of their axis, and what the tip of a line says.
function forest_option(lines, width, theme, {column, title, tip}) {
  const drawn = lines.filter((line) => !line.header);
  const ends = drawn.flatMap((line) => [line.low, line.high]);
  const scale = effect_scale(ends);
  const range = plain_range([...ends, 0], scale);
  const delta = drawn[0].delta;
  const colour = (line) => (line.low > 0 ? theme.worse : line.high < 0 ? theme.better : theme.neutral);
  return {
    grid: {left: width + 10, right: 16, top: 8, bottom: 46},
    tooltip: tooltip(theme, 'item', ({data: {line}}) => tip(line)),
    xAxis: {
      ...scale_axis(scale, range, column, theme, 11),
      ...axis_name(`${title}${scale.kind === 'log' ? ' (signed log)' : ''}`, 24, {color: theme.quiet, fontSize: 11}),
    },
    yAxis: row_axis(
      lines.map((_, k) => String(k)),
      {width, color: theme.quiet, fontSize: 11, formatter: (k) => (lines[k].header ? '' : lines[k].text)},
    ),
    series: [
      plain_line(
        lines.flatMap((line, k) => (line.header ? [] : stroke([scale.to(line.low), k], [scale.to(line.high), k]))),
        {color: theme.ink, width: 1.6},
        {
          markArea: {
            silent: true,
            itemStyle: {color: theme.wash},
            data: Number.isFinite(delta) ? [[{xAxis: scale.to(-delta)}, {xAxis: scale.to(delta)}]] : [],
          },
          markLine: marks_at([{xAxis: 0}], {color: theme.strong_line, type: 'solid'}),
        },
      ),
      // Headings run over the whole width: there is nothing to draw in their lines.
      {
        type: 'scatter',
        symbolSize: 0,
        silent: true,
        label: {show: true, position: 'right', offset: [-width, 0], color: theme.ink, fontWeight: 700, fontSize: 11},
        data: lines.flatMap((line, k) =>
          line.header ? [{value: [range[0], k], label: {formatter: () => line.text}}] : [],
        ),
      },
      {
        type: 'scatter',
        symbolSize: 9,
        z: 4,
        data: lines
          .map((line, k) => ({value: [scale.to(line.mean), k], line, itemStyle: {color: colour(line)}}))
          .filter(({line}) => !line.header),
      },
    ],
  };
}

// One plot of `lines` for each panel {title, lines, rows}, `rows` being those of its CSV, under a node of the page.
function paint_forest_panels(place, panels, words) {
  const theme = current_theme();
  const built = panels.map((panel) => {
    const chart = h('div.chart', {role: 'img', 'aria-label': `Forest plot of ${panel.title}`});
    const tools = h('div.export');
    const node = h('div.card.multiple', h('h3', panel.title), chart, tools);
    return {...panel, chart, tools, node};
  });
  fill(by_id(place), ...built.map((panel) => panel.node));
  for (const {title, lines, rows, chart, tools} of built) {
    const live = chart_in(chart, lines.length * 20 + 54);
    live.setOption(forest_option(lines, Math.min(220, chart.clientWidth * 0.45), theme, words));
    export_buttons(tools, chart, {title: () => `${words.what}, ${title}`, rows: () => rows});
  }
}

const comparison_words = {
  what: 'comparisons',
  column: {unit: '', label: 'loss'},
  title: 'difference of the loss: left is better',
  tip: (line) => [
    line.group,
    h('p', line.name),
    h('p.small', `${interval_text(comparison_words.column, line.mean, line.low, line.high)}: ${forest_verdict(line)}`),
  ],
};

function paint_forest() {
  const rows = named_rows('comparisons', comparison_texts, comparison_numbers);
  by_id('forest').hidden = !rows.length;
  if (!rows.length) return;
  by_id('forest-intro').textContent =
    'Paired differences of the loss with simultaneous 95 % intervals; shaded: too small to matter. A row whose interval leaves out 0 is told apart.';
  const keys = [...comparison_texts, ...comparison_numbers];
  const panels = [...new Set(rows.map((row) => row.task))].map((task) => {
    const own = rows.filter((row) => row.task === task);
    return {title: task, lines: forest_lines(own), rows: [keys, ...own.map((row) => keys.map((key) => row[key]))]};
  });
  paint_forest_panels('forest-charts', panels, comparison_words);
}

function setup_forest() {
  on_change('theme size', paint_forest, true);
}
