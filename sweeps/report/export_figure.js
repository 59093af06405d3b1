// A chart as a figure that stands alone: its title above, the legend that the page writes in HTML, the chart as drawn,
// and below it the names of the numbered and lettered points.

const figure_font = '12px system-ui, sans-serif';

function text_width(text) {
  text_width.pen ??= document.createElement('canvas').getContext('2d');
  text_width.pen.font = figure_font;
  return text_width.pen.measureText(text).width;
}

// Corners of a shape of theme.js, written with M, L, H, V and Z; null of the one that is round.
function icon_corners(path) {
  if (/a/.test(path)) return null;
  let [x, y] = [0, 0];
  return [...path.matchAll(/([MLHV])([^A-Z]+)/g)].map(([, letter, text]) => {
    const numbers = text.split(/[ ,]/).map(Number);
    if (letter !== 'V') x = numbers[0];
    if (letter !== 'H') y = numbers.at(-1);
    return [x, y];
  });
}

// The sign of one key: a shape of the scatter, a line, or a box in its colour.
function key_sign(key, x, y, theme) {
  const path = key.querySelector('path');
  if (path) {
    const style = {fill: getComputedStyle(path).fill};
    const points = icon_corners(path.getAttribute('d'));
    return points
      ? {type: 'polygon', x, y: y - 1, shape: {points}, style}
      : {type: 'circle', x, y: y - 1, shape: {cx: 7, cy: 7, r: 3.4}, style};
  }
  const line = key.querySelector('.line-key, .swatch.wide');
  const dashed = line?.matches('.dashed, .dotted');
  if (line) {
    const css = getComputedStyle(line);
    const stroke = line.matches('.swatch') ? css.backgroundColor : css.borderTopColor;
    const shape = {x1: 0, y1: 8, x2: 20, y2: 8};
    return {type: 'line', x, y, shape, style: {stroke, lineWidth: 2, lineDash: dashed ? [4, 3] : null}};
  }
  const box = key.querySelector('.swatch, .dot-key, .ramp');
  if (!box) return null;
  if (!box.matches('.ramp'))
    return {
      type: 'rect',
      x,
      y,
      shape: {x: 0, y: 3, width: 11, height: 11},
      style: {fill: getComputedStyle(box).backgroundColor},
    };
  const colorStops = Array.from({length: 10}, (_, k) => ({offset: k / 9, color: sequence_colour(k / 9, state.dark)}));
  const fill = {type: 'linear', x: 0, y: 0, x2: 1, y2: 0, colorStops};
  return {type: 'rect', x, y, shape: {x: 0, y: 3, width: 20, height: 11}, style: {fill, stroke: theme.line}};
}

// Keys one after the other, in as many lines as the width asks for: {elements, height}.
function figure_legend(legend, width, top, theme) {
  const elements = [];
  let x = 12,
    y = top;
  for (const key of legend?.querySelectorAll('.key') ?? []) {
    const text = key.textContent.replace(/\s+/g, ' ').trim();
    const sign = key_sign(key, x, y, theme);
    const offset = sign ? (sign.type === 'line' || sign.shape.width === 20 ? 26 : 18) : 0;
    const wide = offset + text_width(text) + 18;
    if (x > 12 && x + wide > width) {
      x = 12;
      y += 18;
      if (sign) Object.assign(sign, {x, y});
    }
    if (sign) elements.push(sign);
    elements.push({type: 'text', x: x + offset, y: y + 2, style: {text, font: figure_font, fill: theme.ink}});
    x += wide;
  }
  return {elements, height: elements.length ? y + 20 - top : 0};
}

function cut_text(text, limit) {
  if (text_width(text) <= limit) return text;
  while (text_width(text + '…') > limit) text = text.slice(0, -1);
  return text + '…';
}

// The names of the points that carry a number or a letter, in columns.
function figure_names(names, width, top, theme) {
  const columns = width > 620 ? 2 : 1;
  const lines = Math.ceil(names.length / columns);
  const limit = width / columns - 24;
  const elements = names.map((text, k) => ({
    type: 'text',
    x: 12 + Math.floor(k / lines) * (width / columns),
    y: top + 6 + (k % lines) * 16,
    style: {text: cut_text(text, limit), font: figure_font, fill: theme.quiet},
  }));
  return {elements, height: names.length ? lines * 16 + 14 : 0};
}

// {option, width, height} of the figure of a live chart.
function figure_of(chart, {title, legend, names}) {
  const theme = current_theme();
  const [width, height] = [chart.getWidth(), chart.getHeight()];
  const keys = figure_legend(legend, width, 32, theme);
  const head = 36 + keys.height;
  const list = figure_names(names, width, head + height, theme);
  const option = {...chart.drawn, backgroundColor: theme.card, tooltip: {show: false}};
  const moved = (grid) => ({
    ...grid,
    top: grid.top + head,
    ...(grid.bottom === undefined ? {} : {bottom: grid.bottom + list.height}),
  });
  option.grid = Array.isArray(option.grid) ? option.grid.map(moved) : moved(option.grid);
  const heading = {
    type: 'text',
    x: 12,
    y: 10,
    style: {text: cut_text(title, (width - 24) / 1.4), font: 'bold 15px system-ui, sans-serif', fill: theme.ink},
  };
  option.graphic = [heading, ...keys.elements, ...list.elements].map((item) => ({...item, silent: true}));
  return {option, width, height: head + height + list.height};
}
