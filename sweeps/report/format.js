// Numbers and names as people read them, and the one way this page makes elements: text is always set as text, never
// parsed as HTML, because recipe and grid names come from users' files.

// h('td.quiet', {title: ..}, ..): an element with its classes, its attributes where there are any, and what it holds.
function h(selector, ...children) {
  const [tag, ...classes] = selector.split('.');
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(' ');
  if (tag === 'button') node.type = 'button';
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  fill(node, ...children);
  return node;
}

// replaceChildren without the nothings.
const fill = (node, ...children) =>
  node.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );

const by_id = (id) => document.getElementById(id);

function significant(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  let text;
  if (size >= 1e7 || size < 1e-4) text = value.toExponential(digits - 1).replace('e+', 'e');
  else if (size >= 10 ** digits) text = String(Math.round(value));
  else text = value.toPrecision(digits);
  return text.replace(/-/g, '−');
}

const si_prefixes = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [1, ''],
  [1e-3, 'm'],
  [1e-6, 'µ'],
  [1e-9, 'n'],
];

const si_prefix = (value) => si_prefixes.find(([size]) => Math.abs(value) >= size * 0.9995) ?? [1e-9, 'n'];

function si_text(value, unit, digits = 3) {
  if (!Number.isFinite(value) || value === 0) return significant(value, digits) + (value === 0 ? ' ' + unit : '');
  const [factor, prefix] = si_prefix(value);
  return `${significant(value / factor, digits)} ${prefix}${unit}`;
}

// A value with its column's unit: shares of one are shown in percent.
function value_text(column, value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (column.unit === 'share') return significant(100 * value, digits) + ' %';
  if (column.unit === 's' || column.unit === 'J') return si_text(value, column.unit, digits);
  return significant(value, digits);
}

// The mean of a point; "> 60 %" where only a bound is known.
function mean_text(column, point, digits = 3) {
  const [mean, low, high] = [column.mean, column.low, column.high].map((list) => list?.[point] ?? NaN);
  if (Number.isNaN(mean) && Number.isFinite(low)) return '> ' + value_text(column, low, digits);
  if (Number.isNaN(mean) && Number.isFinite(high)) return '< ' + value_text(column, high, digits);
  return value_text(column, mean, digits);
}

// Numbers of one table with the same decimals: three significant digits of the largest.
function even_text(column, value, largest) {
  if (!Number.isFinite(value)) return '–';
  const factor = column.unit === 'share' ? 100 : 1;
  if (column.unit === 's' || column.unit === 'J' || !(largest > 0)) return value_text(column, value);
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(largest * factor)), 0), 10);
  return (value * factor).toFixed(decimals).replace('-', '−') + (factor === 100 ? ' %' : '');
}

// A label on an axis: no trailing zeros.
function tick_text(column, value) {
  const plain = (v) =>
    (Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-4)
      ? significant(v, 2)
      : String(Number(v.toPrecision(4)))
    ).replace('-', '−');
  if (column.unit === 'share') return plain(100 * value) + ' %';
  if (column.unit === 'times') return plain(1 + value) + ' x'; // a factor less 1
  if ((column.unit === 's' || column.unit === 'J') && value !== 0) {
    const [factor, prefix] = si_prefix(value);
    return `${plain(value / factor)} ${prefix}${column.unit}`;
  }
  return plain(value);
}

// The mean and its interval, rounded to the digits that the interval supports.
function interval_text(column, mean, low, high) {
  if (Number.isNaN(low) || Number.isNaN(high)) return value_text(column, mean);
  return `${value_text(column, mean)} [${value_text(column, low)}, ${value_text(column, high)}]`;
}

// " ± half" of an interval about the mean, " [low, high]" of one that leans to a side, as a race's may; '' of none.
function spread_text(text, mean, low, high) {
  if (!(high > low)) return '';
  const leans = Math.abs(low + high - 2 * mean) > 0.02 * (high - low);
  return leans ? ` [${text(low)}, ${text(high)}]` : ` ± ${text((high - low) / 2)}`;
}

function column_title(column) {
  const unit = column.unit === 'share' ? '%' : column.unit;
  return unit ? `${column.label} (${unit})` : column.label;
}

const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

// "wgrad.*.rounding" -> "wgrad.rounding": the last two words of the path, more where two paths would look alike.
function short_names(names) {
  const parts = names.map((name) => name.split('.').filter((word) => word !== '*'));
  const suffix = (index, length) => parts[index].slice(-length).join('.');
  return names.map((name, index) => {
    for (let length = 2; length <= parts[index].length || length === 2; ++length) {
      const mine = suffix(index, length);
      if (!names.some((other, k) => k !== index && suffix(k, length) === mine)) return mine;
    }
    return name;
  });
}

// Numbers by size, then words; so that 16 stands before 128.
function natural_order(a, b) {
  const x = Number(a),
    y = Number(b);
  if (a !== '' && b !== '' && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a < b ? -1 : a > b ? 1 : 0;
}

// As src/text/csv.h: an apostrophe before what a spreadsheet would take for a formula.
function csv_field(value) {
  const plain = value === null || value === undefined || Number.isNaN(value) ? '' : String(value);
  const text = /^([=@\t\r]|'+[=+@\t\r-]|[+-].*[(|!])/.test(plain) && plain.length > 1 ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download(name, text, type) {
  const link = h('a', {href: URL.createObjectURL(new Blob([text], {type})), download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copy_text(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard permission: the old way through a selected text field.
    const field = h('textarea.only-spoken');
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  const before = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => {
    button.textContent = before;
  }, 1200);
}
