// The switch of chips: the same points with costs, fronts and statuses of another chip. Pins and filters stay.

function choose_chip(name) {
  state.model = chip_model(state.pack, chip_names(state.pack).indexOf(name));
  Object.assign(state, {range: null, wide: false});
  refresh('task');
}

function paint_chips() {
  const names = chip_names(state.pack);
  by_id('chips').hidden = names.length < 2;
  if (names.length < 2) return;
  const options = names.map((name) => ({value: name, text: name}));
  fill(by_id('chips'), select_box('choose-chip', 'chip', options, state.model.head.chip, choose_chip));
}
