// Reads the packed columns (layout: sweeps/report/report_pack.h) and builds the model that everything else draws from.
// The same code runs in node for tools/scripts/figure.mjs, so nothing here touches the document.

function bytes_of_base64(text) {
  const raw = atob(text.trim());
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  if (typeof DecompressionStream === 'undefined')
    throw new Error(
      'This browser is too old to unpack the page (it needs DecompressionStream: Chrome 80, Firefox 113, ' +
        'Safari 16.4 or newer).',
    );
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function read_column(column, sections, rows) {
  const {kind, at, width, count} = column;
  if (kind === 'hex') {
    const texts = new Array(rows);
    for (let row = 0; row < rows; ++row) {
      let text = '';
      for (let k = 0; k < 8; ++k) text += sections[at + 8 * row + k].toString(16).padStart(2, '0');
      texts[row] = text;
    }
    return texts;
  }
  const bytes = new Uint8Array(count * width);
  for (let plane = 0; plane < width; ++plane)
    for (let i = 0; i < count; ++i) bytes[i * width + plane] = sections[at + plane * count + i];
  if (kind === 'float') return width === 4 ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
  const codes = width === 1 ? bytes : width === 2 ? new Uint16Array(bytes.buffer) : new Uint32Array(bytes.buffer);
  if (kind === 'words') return {codes, values: column.values};
  if (kind === 'numbers') {
    const values = column.values.map((value) => value ?? NaN);
    return Float64Array.from(codes, (code) => values[code]);
  }
  return {lists: codes, values: column.values}; // kind 'lists', cut into rows by sentences() when first asked for
}

function read_pack(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const sections = bytes.subarray(4 + length);
  const tables = {};
  for (const [name, table] of Object.entries(head.tables)) {
    tables[name] = {rows: table.rows, columns: new Map()};
    for (const [key, column] of Object.entries(table.columns))
      tables[name].columns.set(key, read_column(column, sections, table.rows));
  }
  return {head, tables};
}

// The numbers of the rows that pass, of `count` rows.
const rows_with = (count, test) => Array.from({length: count}, (_, row) => row).filter(test);

const words_at = (column, row) => (Array.isArray(column) ? column[row] : column.values[column.codes[row]]);

// Rows of a 'lists' column as texts.
function sentences({lists, values}) {
  const texts = [];
  let words = [];
  for (const code of lists) {
    if (code) words.push(values[code - 1]);
    else {
      texts.push(words.join(' '));
      words = [];
    }
  }
  return texts;
}

// Near the front of a screening are many; only those that none other beats by means are its front. Once fresh seeds
// have judged a context, what they left out is no more than near.
function mark_candidates(states, context, x, y) {
  const by_context = new Map();
  states.forEach((state, i) => {
    const name = words_at(context, i);
    if (!by_context.has(name)) by_context.set(name, {tested: false, near: []});
    if (state === 'on') by_context.get(name).tested = true;
    if (state === 'screening') by_context.get(name).near.push(i);
  });
  for (const {tested, near} of by_context.values()) {
    const front = new Set(tested ? [] : front_by_means(near, x, y));
    for (const i of near) if (!front.has(i)) states[i] = 'candidate';
  }
}

// long: one object, a field after another
function build_model({head, tables}) {
  const get = (table, name) => tables[table].columns.get(name);
  const count = tables.points.rows;
  const labels = short_names(head.axes.map((axis) => axis.name));
  const axes = head.axes.map((axis, index) => {
    const {codes, values} = get('points', 'axis ' + axis.name);
    // Shown in the order of sizes, the reference first; '' (the axis is dead there) last.
    const rank = (value) => (value === '' ? 2 : value === axis.reference ? 0 : 1);
    const order = values
      .map((_, code) => code)
      .sort((a, b) => rank(values[a]) - rank(values[b]) || natural_order(values[a], values[b]));
    return {...axis, label: labels[index], codes, values, order};
  });
  const columns = [
    ...head.cost_columns.map((column) => ({...column, kind: 'cost'})),
    ...head.quality_columns.map((column) => ({...column, kind: 'quality'})),
  ].map((column) => ({
    ...column,
    label: column.name.replace(/_s$/, '').replace(/_j$/, '').replaceAll('_', ' '),
    mean: get('points', 'mean ' + column.name),
    low: get('points', 'low ' + column.name) ?? null,
    high: get('points', 'high ' + column.name) ?? null,
  }));
  const front = get('points', 'front');
  const diverged = get('points', 'diverged');
  const failed = get('points', 'failed');
  const y = columns.find((column) => column.name === head.y);
  const states = new Array(count);
  for (let i = 0; i < count; ++i) {
    if (diverged[i] > 0) states[i] = 'diverged';
    else if (failed[i] > 0 && Number.isNaN(y.mean[i])) states[i] = 'failed';
    else states[i] = words_at(front, i) || 'off';
  }
  mark_candidates(
    states,
    get('points', 'context'),
    columns.find((column) => column.name === head.x),
    y,
  );
  const hashes = get('points', 'config_hash');
  const hash_at = Array.isArray(hashes) ? hashes : Array.from({length: count}, (_, i) => words_at(hashes, i));
  let commands = null;
  return {
    head,
    tables,
    count,
    axes,
    columns,
    states,
    diverged,
    failed,
    seeds: get('points', 'seeds'),
    baseline: get('points', 'baseline'),
    task: get('points', 'task'),
    context: get('points', 'context'),
    name: get('points', 'name'),
    hash: hash_at,
    reference_hash: get('points', 'reference_hash'),
    rival: get('points', 'rival') ?? null,
    index_of: new Map(hash_at.map((hash, i) => [hash, i])),
    column: (name) => columns.find((column) => column.name === name),
    axis: (name) => axes.find((axis) => axis.name === name),
    command: (i) => (commands ??= sentences(get('points', 'command')))[i],
    get,
  };
}

// The same points on chip `k`: 0 is the one that the page opens on, the others are head.chips.
function chip_model(pack, k) {
  if (k === 0) return build_model(pack);
  const {head, tables} = pack;
  const own = (name) => tables[`chip ${k - 1} ${name}`];
  const columns = new Map([...tables.points.columns, ...own('points').columns]);
  const {name, workload, answers, notes} = head.chips[k - 1];
  return build_model({
    head: {...head, chip: name, workload, answers, notes},
    tables: {...tables, points: {...tables.points, columns}, terms: own('terms'), sensitivity: own('sensitivity')},
  });
}

const chip_names = ({head}) => [head.chip, ...(head.chips ?? []).map((chip) => chip.name)];

// Where a point leaves the base configuration: [{axis, value, reference}].
function differences(model, point) {
  return model.axes
    .map((axis) => ({axis, value: axis.values[axis.codes[point]], reference: axis.reference}))
    .filter(({value, reference}) => value !== '' && reference !== '' && value !== reference);
}

// The points that are tied with a step of the front, in the order of x.
function tied_with(model, step, x) {
  const belongs = (i) => model.states[i] === 'tied' && model.rival && words_at(model.rival, i) === model.hash[step];
  return rows_with(model.count, belongs).sort((i, j) => direction(x) * (x.mean[i] - x.mean[j]));
}

// A name that every configuration shares says nothing about one of them.
function shown_name(model, point) {
  if (model.names_differ === undefined) {
    const own = rows_with(model.count, (i) => !model.baseline[i]);
    model.names_differ = new Set(own.map((i) => words_at(model.name, i))).size > 1;
  }
  return model.baseline[point] || model.names_differ ? words_at(model.name, point) : '';
}

// One or two axes of few values tell the points of a context apart: then a point is named by its values on them, and
// coloured by the first. [] where there are more axes, many values, or names that differ.
function naming_axes(model, context) {
  model.naming ??= new Map();
  if (!model.naming.has(context)) {
    const points = rows_with(model.count, (i) => words_at(model.context, i) === context && !model.baseline[i]);
    const values = (axis) => new Set(points.map((i) => axis.codes[i])).size;
    const varied = model.axes.filter((axis) => values(axis) > 1);
    const few = varied.length <= 2 && varied.every((axis) => values(axis) <= 8) && points.length <= 24;
    model.naming.set(context, few && points.length && !shown_name(model, points[0]) ? varied : []);
  }
  return model.naming.get(context);
}

// "stochastic, ue5m3"; a number or a switch has its axis beside it.
const axis_values = (model, point) =>
  naming_axes(model, words_at(model.context, point)).map((axis) => {
    const value = axis.values[axis.codes[point]];
    return /^(none|true|false|null|[^a-z].*)?$/i.test(value) ? `${axis.label}=${value || 'none'}` : value;
  });

function point_label(model, point, limit = Infinity) {
  const name = shown_name(model, point);
  if (!name && naming_axes(model, words_at(model.context, point)).length) return axis_values(model, point).join(', ');
  // nvfp4, not nvfp4: recipe=nvfp4
  const parts = differences(model, point)
    .filter(({value}) => value !== name)
    .map(({axis, value}) => `${axis.label}=${value}`);
  if (name && (model.baseline[point] || !parts.length)) return name;
  if (!parts.length) return 'base configuration';
  const shown = parts.slice(0, limit).join(', ');
  return (name ? name + ': ' : '') + shown + (parts.length > limit ? ` +${parts.length - limit} more` : '');
}

// The canonical configuration, put together from its leaves.
function configuration(model, point) {
  const root = {};
  let empty = true;
  for (const [path, column] of model.tables.configs.columns) {
    const text = words_at(column, point);
    if (text === '') continue;
    empty = false;
    const keys = JSON.parse(path);
    if (!keys.length) return JSON.parse(text);
    let place = root;
    // Own properties only: a key called "__proto__" in a user's file must stay a plain key.
    const set = (key, value) =>
      Object.defineProperty(place, key, {value, enumerable: true, configurable: true, writable: true});
    for (const key of keys.slice(0, -1)) {
      if (!Object.hasOwn(place, key)) set(key, {});
      place = place[key];
    }
    set(keys.at(-1), JSON.parse(text));
  }
  return empty ? null : root;
}

function point_terms(model, point) {
  const terms = [];
  for (const [name, values] of model.tables.terms.columns)
    if (values[point] > 0) terms.push({name, seconds: values[point]});
  return terms;
}

function point_runs(model, point) {
  const points = model.get('runs', 'point');
  return rows_with(points.length, (row) => points[row] === point);
}

function curves_of(model, hash) {
  const curves = [];
  const table = model.tables.curves;
  if (!table.rows) return curves;
  const hashes = table.columns.get('config_hash');
  const lengths = table.columns.get('length');
  let begin = 0;
  for (let row = 0; row < table.rows; ++row) {
    const end = begin + lengths[row];
    if (words_at(hashes, row) === hash) {
      const cut = (name) => Array.from(model.get('curve_points', name).subarray(begin, end));
      curves.push({
        seed: table.columns.get('seed')[row],
        step: cut('step'),
        train: cut('train'),
        validation: cut('validation'),
      });
    }
    begin = end;
  }
  return curves;
}
