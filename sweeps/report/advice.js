// The advice of a ladder of sizes, a forest plot for each chip: how much more or less than bf16 a recipe costs until it
// has bf16's loss, tokens times step time, with the middle 95 % of the draws of law and cost model.

const advice_texts = ['chip', 'recipe', 'word'];
const advice_numbers = ['step', 'cost', 'cost_low', 'cost_high', 'tokens', 'tokens_low', 'tokens_high'];

const times_text = (mean, low, high) =>
  Number.isFinite(mean)
    ? `${significant(mean, 3)} times bf16's` +
      (Number.isFinite(low) ? ` [${significant(low, 3)}, ${Number.isFinite(high) ? significant(high, 3) : 'never'}]` : '')
    : 'never enough';

const advice_words = {
  what: 'advice',
  column: {unit: 'times', label: 'cost'},
  title: 'x the time of bf16, until the loss of bf16: left of 1 x is sooner',
  tip: (line) =>
    h(
      'div',
      {},
      h('b', {}, line.recipe),
      h('p', {}, `${line.word === 'alike' ? 'not told apart from the cheapest' : line.word} on ${line.chip}`),
      h(
        'table',
        {class: 'tip-table'},
        ...[
          ['time', times_text(line.cost, line.cost_low, line.cost_high)],
          ['tokens', times_text(line.tokens, line.tokens_low, line.tokens_high)],
          ['a step', times_text(line.step)],
        ].map(([name, text]) => h('tr', {}, h('td', {}, name), h('td', {}, text))),
      ),
    ),
};

// Three times bf16's cost and more would squeeze what people choose between: named, not drawn.
const is_far = (row) => row.cost_low > 3;

// The lines of a chip. Where some draws never get there the interval runs to the largest number known.
function advice_lines(all) {
  const rows = all.filter((row) => !is_far(row));
  const ends = rows.flatMap((row) => [row.cost, row.cost_high]).filter(Number.isFinite);
  const far = Math.max(...ends) - 1;
  return rows
    .filter((row) => Number.isFinite(row.cost))
    .map((row) => ({
      ...row,
      text: row.recipe,
      mean: row.cost - 1,
      low: row.cost_low - 1,
      high: Number.isFinite(row.cost_high) ? row.cost_high - 1 : far,
      delta: NaN,
    }));
}

function paint_advice() {
  const rows = named_rows('advice', advice_texts, advice_numbers);
  by_id('advice').hidden = !rows.length;
  if (!rows.length) return;
  const chips = [...new Set(rows.map((row) => row.chip))];
  const sentence = (chip) => {
    const own = rows.filter((row) => row.chip === chip);
    const list = (word) => own.filter((row) => row.word === word).map((row) => row.recipe);
    const [alike, never, far] = [list('alike'), list('never'), own.filter(is_far)];
    return (
      `${chip}: ${list('cheapest').join(', ')} is the cheapest` +
      (alike.length ? `; not told apart from it: ${alike.join(', ')}` : '') +
      (never.length ? `; never there: ${never.join(', ')}` : '') +
      (far.length ? `; not drawn: ${far.map((row) => `${row.recipe}, ${significant(row.cost, 3)} times bf16's time`).join('; ')}` : '') +
      '.'
    );
  };
  by_id('advice-intro').textContent = chips.map(sentence).join(' ');
  by_id('advice-note').textContent = state.model.head.advice_note;
  const keys = [...advice_texts, ...advice_numbers];
  const panels = chips.map((chip) => {
    const own = rows.filter((row) => row.chip === chip);
    return {
      title: chip,
      lines: advice_lines(own),
      rows: [keys, ...own.map((row) => keys.map((key) => row[key]))],
    };
  });
  paint_forest_panels('advice-charts', panels, advice_words);
}

function setup_advice() {
  on_change('theme size', paint_advice, true);
}
