// A table of numbers as line charts in one SVG, without a browser:
//   node tools/scripts/curves.mjs TABLE.csv --x b --y variance --line variant --out FIGURE.svg
//     [--panel family] [--where variant='SR 3/4,RNE' ...] [--linear x|y ...] [--title TEXT] [--x-label TEXT]
//     [--y-label TEXT] [--panel-label TEXT] [--theme light|dark]
// One panel for each word of column --panel, one line for each word of column --line; axes are logarithmic unless named
// by --linear, and values that are not above 0 are left out there. Labels say the axes in words with units (default: the
// columns' names, underlines as spaces). Needs node_modules (tools/setup.sh).
import {writeFileSync} from 'node:fs';
import {parseArgs} from 'node:util';
import {read_csv} from './csv.mjs';

function fail(message) {
  console.error(`curves: ${message}\nnode tools/scripts/curves.mjs TABLE.csv --x C --y C --line C --out FIGURE.svg`);
  process.exit(2);
}

let parsed;
try {
  const text = (name) => [name, {type: 'string'}];
  parsed = parseArgs({
    allowPositionals: true,
    options: {
      ...Object.fromEntries(
        ['x', 'y', 'line', 'panel', 'out', 'title', 'x-label', 'y-label', 'panel-label', 'theme'].map(text),
      ),
      where: {type: 'string', multiple: true, default: []},
      linear: {type: 'string', multiple: true, default: []},
    },
  });
} catch (error) {
  fail(error.message);
}
const {values: options, positionals} = parsed;
for (const name of ['x', 'y', 'line', 'out']) if (!options[name]) fail(`--${name} is needed`);
if (positionals.length !== 1) fail('one table is needed');
const {head, rows} = read_csv(positionals[0]);
const column = (name) => {
  if (!head.includes(name)) fail(`unknown column '${name}'; accepted: ${head.join(', ')}`);
  return name;
};
const conditions = options.where.map((text) => {
  const [name, ...words] = text.split('=');
  return [column(name), words.join('=').split(',')];
});
const kept = rows.filter((row) => conditions.every(([name, words]) => words.includes(row[name])));
if (!kept.length) fail('no row is left after --where');
const unique = (name, list) => [...new Set(list.map((row) => row[name]))];
const panels = options.panel ? unique(column(options.panel), kept) : [''];
const lines = unique(column(options.line), kept);
const logarithmic = (axis) => !options.linear.includes(axis);

const echarts = await import('echarts').catch(() => fail('no node_modules/echarts: run tools/setup.sh'));
const dark = options.theme === 'dark';
const ink = dark ? '#e6e6e6' : '#222222';
const faint = dark ? '#444444' : '#dddddd';
// Okabe and Ito's colours for all kinds of sight, then four of Tol's; shapes repeat after eight, so that no two of the
// first twelve lines share a colour and no two of the first 24 share both.
const okabe_ito = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', dark ? '#F0E442' : '#8a7a00', ink];
const colours = [...okabe_ito, '#882255', '#44AA99', '#7a4fb0', '#6b7280'];
const shapes = ['circle', 'triangle', 'rect', 'diamond', 'emptyCircle', 'emptyTriangle', 'emptyRect', 'emptyDiamond'];
// Lines may lie on each other: what is drawn first is larger, so that it shows below what covers it.
const size_of = (i) => Math.min(7 + 1.4 * (lines.length - 1 - i), 15);
const width_of = (i) => Math.min(1.8 + 0.45 * (lines.length - 1 - i), 4.5);
const label_of = (axis) => options[`${axis}-label`] ?? options[axis].replaceAll('_', ' ');
const width = 620;
const legend_rows = Math.ceil(lines.length / 3);
const panel_title = (word) => (word && options['panel-label'] ? `${options['panel-label']} ${word}` : word);
const height = 330 + 20 * legend_rows;

// long: one drawing, whose lines, marks and axes share their measures
function panel(word) {
  const points = kept.filter((row) => !options.panel || row[options.panel] === word);
  // A twentieth of the axis on both sides, so that no mark is cut.
  const padded = (list) => {
    const to = logarithmic('x') ? Math.log : (v) => v;
    const from = logarithmic('x') ? Math.exp : (v) => v;
    const places = list
      .filter((row) => row[options.x] !== '' && (!logarithmic('x') || Number(row[options.x]) > 0))
      .map((row) => to(Number(row[options.x])));
    const [low, high] = [Math.min(...places), Math.max(...places)];
    const edge = (high - low || 1) / 20;
    return {min: from(low - edge), max: from(high + edge)};
  };
  const axis = (name, key) => ({
    type: logarithmic(key) ? 'log' : 'value',
    logBase: key === 'x' ? 2 : 10,
    scale: true,
    ...(key === 'x' ? padded(points) : {}),
    name,
    nameLocation: 'middle',
    nameGap: key === 'x' ? 26 : 62,
    nameTextStyle: {color: ink, fontSize: 12},
    axisLabel: {
      color: ink,
      fontSize: 11,
      ...(key === 'x' ? {showMinLabel: false, showMaxLabel: false} : {}),
      formatter: (v) =>
        key === 'y' && v && (v < 0.001 || v > 1e4) ? v.toExponential(0) : `${Number(v.toPrecision(4))}`,
    },
    axisLine: {lineStyle: {color: ink}},
    splitLine: {show: key === 'y', lineStyle: {color: faint}},
    minorTick: {show: false},
  });
  const chart = echarts.init(null, null, {renderer: 'svg', ssr: true, width, height});
  chart.setOption({
    animation: false,
    backgroundColor: dark ? '#1b1b1b' : '#ffffff',
    title: {
      text: [options.title, panel_title(word)].filter(Boolean).join(': '),
      left: 12,
      top: 8,
      textStyle: {color: ink, fontSize: 14},
    },
    legend: {top: 34, left: 12, itemGap: 22, textStyle: {color: ink, fontSize: 11}, data: unique(options.line, points)},
    grid: {left: 84, right: 20, top: 50 + 24 * legend_rows, bottom: 46},
    xAxis: axis(label_of('x'), 'x'),
    yAxis: axis(label_of('y'), 'y'),
    series: lines.map((line, i) => ({
      name: line,
      type: 'line',
      symbol: shapes[i % 8],
      symbolSize: size_of(i),
      lineStyle: {width: width_of(i), type: i < 8 ? 'solid' : 'dashed'},
      itemStyle: {color: colours[i % colours.length]},
      clip: false,
      data: points
        .filter((row) => row[options.line] === line && row[options.y] !== '')
        .map((row) => [Number(row[column(options.x)]), Number(row[column(options.y)])])
        .filter(([x, y]) => (!logarithmic('x') || x > 0) && (!logarithmic('y') || y > 0))
        .sort(([a], [b]) => a - b),
    })),
  });
  return chart.renderToSVGString();
}

const across = panels.length > 1 ? 2 : 1;
const total = [width * across, height * Math.ceil(panels.length / across)];
const drawn = panels.map((word, k) =>
  panel(word).replace('<svg ', `<svg x="${(k % across) * width}" y="${Math.floor(k / across) * height}" `),
);
writeFileSync(
  options.out,
  `<svg xmlns="http://www.w3.org/2000/svg" width="${total[0]}" height="${total[1]}" viewBox="0 0 ${total.join(' ')}">\n` +
    `${drawn.join('\n')}\n</svg>\n`,
);
console.log(`${options.out}: ${panels.length} panels, ${lines.length} lines`);
process.exit(0);
