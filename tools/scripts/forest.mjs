// The effects of a study as forest plots in one SVG, a panel for each task:
//   node tools/scripts/forest.mjs results/wgrad/effects.csv --out results/wgrad/effects.svg [--title TEXT] [--note TEXT]
// effects.csv is tools/studies/paired.py's: group, name, task, n, mean, low, high, delta. A line is the simultaneous interval, a dot the
// mean; coloured where the interval does not hold 0. An axis ends at three times the median of its panel's interval ends, so that
// one large effect does not hide the others: arrows stand for ends that lie beyond, a number for a mean.
import {writeFileSync} from 'node:fs';
import {parseArgs} from 'node:util';
import {read_csv} from './csv.mjs';

function fail(message) {
  console.error(`forest: ${message}\nnode tools/scripts/forest.mjs EFFECTS.csv --out FIGURE.svg [--title TEXT]`);
  process.exit(2);
}

let parsed;
try {
  parsed = parseArgs({allowPositionals: true, options: {out: {type: 'string'}, title: {type: 'string', default: ''}, note: {type: 'string', default: ''}}});
} catch (error) {
  fail(error.message);
}
const {values: options, positionals} = parsed;
if (!options.out || positionals.length !== 1) fail('one table and --out are needed');
const {head, rows} = read_csv(positionals[0]);
for (const name of ['group', 'name', 'task', 'mean', 'low', 'high', 'delta']) if (!head.includes(name)) fail(`no column '${name}'`);
for (const row of rows) for (const name of ['mean', 'low', 'high', 'delta']) row[name] = Number(row[name]);

const tasks = [...new Set(rows.map((row) => row.task))];
const lines = []; // headings of groups and their rows, from top to bottom
for (const group of new Set(rows.map((row) => row.group))) {
  lines.push({heading: group});
  for (const name of new Set(rows.filter((row) => row.group === group).map((row) => row.name))) lines.push({group, name});
}

const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
const label_width = 30 + Math.max(...lines.map((line) => 6.3 * (line.name ?? '').length + 7 * (line.heading ?? '').length));
const [panel, gap, top, step] = [230, 24, 58, 21];
const width = Math.max(label_width + tasks.length * (panel + gap), 860);  // room for the note below
const height = top + lines.length * step + 46;
const parts = [];
const text = (x, y, content, more = '') => parts.push(`<text x="${x}" y="${y}" ${more}>${escape(content)}</text>`);

// Zero, and the round number below each end.
function ticks(end) {
  const unit = 10 ** Math.floor(Math.log10(end));
  const round = [5, 2, 1].map((k) => k * unit).find((value) => value <= end);
  return [-round, 0, round];
}
const label = (value) => (value === 0 ? '0' : `${value > 0 ? '+' : '−'}${Number(Math.abs(value).toPrecision(2))}`);

text(14, 24, options.title, 'font-size="15" font-weight="bold"');
lines.forEach((line, i) => {
  const y = top + i * step + 15;
  if (line.heading) text(14, y, line.heading, 'font-weight="bold"');
  else text(28, y, line.name);
});
tasks.forEach((task, k) => {
  const mine = rows.filter((row) => row.task === task);
  const ends = mine.map((row) => Math.max(Math.abs(row.low), Math.abs(row.high))).sort((a, b) => a - b);
  const end = Math.min(ends.at(-1), 3 * ends[Math.floor(ends.length / 2)]) * 1.06 || 1;
  const left = label_width + k * (panel + gap);
  const x = (value) => left + (panel * (Math.max(-end, Math.min(end, value)) + end)) / (2 * end);
  const bottom = top + lines.length * step;
  text(left + panel / 2, top - 10, task, 'text-anchor="middle" font-weight="bold"');
  const delta = Math.min(end, mine[0].delta);
  parts.push(`<rect x="${x(-delta)}" y="${top - 2}" width="${x(delta) - x(-delta)}" height="${bottom - top + 2}" fill="#e8eef4"/>`);
  for (const value of ticks(end)) {
    const stroke = value === 0 ? '#555555' : '#dddddd';
    parts.push(`<line x1="${x(value)}" x2="${x(value)}" y1="${top - 2}" y2="${bottom}" stroke="${stroke}"/>`);
    text(x(value), bottom + 15, label(value), 'text-anchor="middle"');
  }
  lines.forEach((line, i) => {
    const row = mine.find((candidate) => candidate.group === line.group && candidate.name === line.name);
    if (!row) return;
    const y = top + i * step + 11;
    const colour = row.low > 0 ? '#B34700' : row.high < 0 ? '#0060A0' : '#666666';
    if (row.low > end || row.high < -end) {
      const right = row.low > end;
      text(right ? left + panel : left, y + 4, right ? `${label(row.mean)} ▶` : `◀ ${label(row.mean)}`,
        `text-anchor="${right ? 'end' : 'start'}" fill="${colour}"`);
      return;
    }
    parts.push(`<line x1="${x(row.low)}" x2="${x(row.high)}" y1="${y}" y2="${y}" stroke="${colour}" stroke-width="2"/>`);
    for (const [beyond, side] of [[row.low < -end, -1], [row.high > end, 1]]) {
      const tip = x(side * end);
      if (beyond) parts.push(`<path d="M${tip} ${y}l${-7 * side} -4v8z" fill="${colour}"/>`);
    }
    // A mean beyond the axis is the number at its arrow.
    if (Math.abs(row.mean) <= end) parts.push(`<circle cx="${x(row.mean)}" cy="${y}" r="4" fill="${colour}"/>`);
    else {
      const right = row.mean > 0;
      text(right ? left + panel - 10 : left + 10, y - 3, label(row.mean), `text-anchor="${right ? 'end' : 'start'}" fill="${colour}"`);
    }
  });
});
const note = options.note || 'Difference of the loss with intervals that hold together at 95 %; orange: worse, blue: better; shaded: 2 % of the gap of the 4-bit format.';
text(14, height - 10, note, 'fill="#444444"');
writeFileSync(
  options.out,
  `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `font-family="sans-serif" font-size="12" fill="#222222">\n<rect width="100%" height="100%" fill="#ffffff"/>\n${parts.join('\n')}\n</svg>\n`,
);
console.log(`${options.out}: ${rows.length} effects on ${tasks.length} tasks`);
