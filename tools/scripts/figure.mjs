// The front of a report page as an SVG figure, drawn by the page's own code and chart library, without a browser:
//   node tools/scripts/figure.mjs build/studies/quick.html --out results/quick/front.svg [--task lm] [--x overhead]
//     [--y loss_gap] [--colour status | 'axis NAME' | COLUMN] [--theme light|dark] [--width 900] [--height 560] [--wide]
// Without --task every task gets a panel, two in a row; --height is that of one panel. --wide shows baselines far to
// the right as well. Needs node_modules (tools/setup.sh). The data are those inside the page, so page and figure cannot
// disagree.
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {inflateSync} from 'node:zlib';
import {parseArgs} from 'node:util';

const usage =
  'node tools/scripts/figure.mjs REPORT.html --out FIGURE.svg [--task T --x C --y C --colour C --theme light|dark]';

function fail(message) {
  console.error(`figure: ${message}\n${usage}`);
  process.exit(2);
}

// The page's modules are plain scripts that share one scope; here that scope is a function's.
function page_code() {
  const folder = new URL('../../sweeps/report/', import.meta.url);
  const files = ['format', 'theme', 'data', 'front', 'charts', 'scatter_layout', 'scatter_labels', 'scatter_option'];
  const read = (file) => readFileSync(new URL(file, folder), 'utf8');
  const code = `const theme_data = ${read('themes.json')};\n` + files.map((file) => read(`${file}.js`)).join('\n');
  const names = 'read_pack, build_model, scatter_option, chart_defaults, words_at, front_kinds, symbols, named_points';
  return new Function(`'use strict';\n${code}\nreturn {${names}};`)();
}

function model_of(path, page) {
  const html = readFileSync(path, 'utf8');
  const packed = html.match(/<script type="application\/octet-stream" id="packed-data">([^<]*)</)?.[1];
  if (!packed) fail(`${path}: not a report page of fp4sim`);
  return page.build_model(page.read_pack(new Uint8Array(inflateSync(Buffer.from(packed, 'base64')))));
}

function choose(what, word, accepted) {
  if (!accepted.includes(word)) fail(`unknown ${what} '${word}'; accepted: ${accepted.join(', ')}`);
  return word;
}

// One circle per two pixels is all that can be seen; a figure of 20,000 points then stays small.
function thin(option, width, height) {
  for (const series of option.series) {
    if (series.type !== 'scatter' || !(series.data.length > 500)) continue;
    const {min, max} = option.xAxis[series.xAxisIndex ?? 0];
    const {min: low, max: high} = option.yAxis[series.yAxisIndex ?? 0];
    const taken = new Set();
    series.data = series.data.filter(([x, y]) => {
      const cell =
        Math.round(((x - min) / (max - min)) * (width / 2)) * 10000 +
        Math.round(((y - low) / (high - low)) * (height / 2));
      return !taken.has(cell) && taken.add(cell);
    });
    series.large = false;
  }
}

// Drops what only a browser with the library would use, and writes plain circles as circles: a fifth of the size.
function plain_svg(svg) {
  const rounded = (text) => String(Number(Number(text).toFixed(1)));
  return svg
    .replace(/ (?:ecmeta_\w+|pointer-events|class)="[^"]*"/g, '')
    .replace(/<style ?>.*?<\/style>\n?/s, '')
    .replace(/ stroke="none"(?: stroke-[\w-]+="[^"]*")*/g, '')
    .replace(
      /<path d="M1 0A1 1 0 1 1 1 -0\.1A1 1 0 0 1 1 0" transform="matrix\(([\d.]+),0,0,[\d.]+,([\d.]+),([\d.]+)\)"( fill="#\w+")( fill-opacity="[\d.]+")?><\/path>/g,
      (all, r, x, y, fill, opacity = '') => `<circle cx="${rounded(x)}" cy="${rounded(y)}" r="${r}"${fill}${opacity}/>`,
    );
}

let parsed;
try {
  parsed = parseArgs({
    allowPositionals: true,
    options: {
      out: {type: 'string'},
      task: {type: 'string'},
      x: {type: 'string'},
      y: {type: 'string'},
      colour: {type: 'string', default: 'status'},
      theme: {type: 'string', default: 'light'},
      width: {type: 'string'},
      height: {type: 'string'},
      wide: {type: 'boolean', default: false},
    },
  });
} catch (error) {
  fail(error.message);
}
const {values: options, positionals} = parsed;
if (positionals.length !== 1 || !options.out) fail('one report page and --out are needed');
if (!existsSync(positionals[0])) fail(`${positionals[0]}: no such file`);
const echarts = await import('echarts').catch(() => fail('no node_modules/echarts: run tools/setup.sh'));

const page = page_code();
const model = model_of(positionals[0], page);
const columns = model.columns.map((column) => column.name);
const tasks = [...model.context.values].sort();
const chosen = options.task === undefined ? tasks : [choose('task', options.task, tasks)];
const panels = chosen.slice(0, 12);
const across = panels.length > 1 ? 2 : 1;
const width = Number(options.width ?? (across > 1 ? 1200 : 900)) / across;
const height = Number(options.height ?? (across > 1 ? 430 : 560));
if (!(width >= 200 && height >= 150)) fail('--width and --height: numbers; a panel needs 200 x 150');
const dark = choose('theme', options.theme, ['light', 'dark']) === 'dark';
const choice = {
  x: choose('column', options.x ?? model.head.x, columns),
  y: choose('column', options.y ?? model.head.y, columns),
  colour: choose('colour', options.colour, ['status', ...columns, ...model.axes.map((axis) => `axis ${axis.name}`)]),
};

// One context as an SVG of its own.
// long: one drawing, whose points, names and axes share their measures
function panel(context) {
  const everything = Array.from({length: model.count}, (_, i) => i);
  const view = {
    ...choice,
    context,
    visible: everything.filter((i) => page.words_at(model.context, i) === context),
    x_scale: 'auto',
    y_scale: 'auto',
    intervals: 'front',
    pins: [],
    range: null,
    wide: options.wide,
    narrow: false,
    size: [width - 84, height - 124],
  };
  const {option, groups, layout, theme} = page.scatter_option(model, view, dark);
  thin(option, width, height);
  option.backgroundColor = theme.card;
  const title = context.replace(/task\.(\*|\w+)\./g, '');
  const colour = view.colour === 'status' ? '' : `, colour: ${view.colour.replace(/^axis /, '')}`;
  option.title = {
    text: across > 1 ? `${title}${colour}` : `${model.head.name}: ${title}${colour}`,
    left: 12,
    top: 8,
    textStyle: {color: theme.ink, fontSize: 15},
  };
  // The legend of the page is HTML; here the library draws one: shapes when colour is the status, else colours.
  const shown = groups.filter((group) => group.count > 0 && !group.ramp);
  const symbol = (group) => page.symbols[group.state] ?? 'circle';
  const line = page.front_kinds[layout.front.kind].line;
  option.legend = {
    top: 32,
    left: 12,
    itemGap: 26, // node has no font to measure: room for wide letters
    itemWidth: 12,
    itemHeight: 11,
    textStyle: {color: theme.ink, fontSize: 12},
    data: shown.map((group) => ({name: group.name, icon: symbol(group), itemStyle: {color: group.colour, opacity: 1}})),
  };
  const legend_height = shown.length > (across > 1 ? 3 : 5) ? 74 : 58;
  for (const grid of option.grid) grid.top += legend_height;
  // Below the chart, the numbered points in words: two columns of them where there is room.
  const named = page
    .named_points(model, view, layout)
    .map((text) => (text.length > 64 ? text.slice(0, 63) + '…' : text));
  const columns = width > 800 ? 2 : 1;
  const lines = Math.ceil(named.length / columns);
  const foot = lines ? lines * 16 + 12 : 0;
  option.grid[0].bottom += foot;
  option.graphic = named.map((text, k) => ({
    type: 'text',
    x: 14 + Math.floor(k / lines) * (width / columns),
    y: height + 4 + (k % lines) * 16,
    style: {text, font: '12px sans-serif', fill: theme.quiet},
  }));
  const whole = height + foot;
  const chart = echarts.init(null, null, {renderer: 'svg', ssr: true, width, height: whole});
  chart.setOption({...page.chart_defaults, ...option});
  console.log(`${context}: ${layout.shown.length} configurations, ${layout.front.points.length} on the line (${line})`);
  return {svg: plain_svg(chart.renderToSVGString()), height: whole};
}

const drawn = panels.map(panel);
if (panels.length < chosen.length)
  console.log(`only ${panels.length} of ${chosen.length} tasks are drawn; choose one by --task`);
const row_heights = drawn.reduce((rows, {height: own}, k) => {
  const row = Math.floor(k / across);
  rows[row] = Math.max(rows[row] ?? 0, own);
  return rows;
}, []);
const above = (row) => row_heights.slice(0, row).reduce((sum, own) => sum + own, 0);
const total = [width * across, above(row_heights.length)];
const nested = drawn.map(({svg}, k) =>
  svg.replace('<svg ', `<svg x="${(k % across) * width}" y="${above(Math.floor(k / across))}" `),
);
const whole = `<svg xmlns="http://www.w3.org/2000/svg" width="${total[0]}" height="${total[1]}" viewBox="0 0 ${total.join(' ')}">`;
writeFileSync(options.out, panels.length > 1 ? `${whole}\n${nested.join('\n')}\n</svg>\n` : drawn[0].svg + '\n');
process.exit(0);
