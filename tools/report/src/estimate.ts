// The page of an estimate: what takes the memory, when, what fits, what to
// change.

import { plainTable } from './details';
import { append, h, section } from './dom';
import { curveChart, stepChart } from './estimate_charts';
import type { Advice, Estimate, Fit, Term, Unit } from './estimate_report';
import { formatBytes, formatCount, formatInteger, printable } from './format';
import { makeTable } from './table';
import { themeButton } from './theme';

function percent(part: number): string {
  return `+${(100 * part).toFixed(0)} %`;
}

// Saved memory as a change: less is better.
function change(saved: number): string {
  return saved === 0 ? '\u2013'
    : `${saved > 0 ? '\u2212' : '+'}${formatBytes(Math.abs(saved))}`;
}

function code(text: string): HTMLElement {
  return h('code', {}, printable(text));
}

function list(items: string[]): HTMLElement {
  return h('ul', { class: 'notes' },
    ...items.map((text) => h('li', {}, printable(text))));
}

function head(estimate: Estimate): HTMLElement {
  const path = printable(
    estimate.model === '-' ? 'model from stdin' : estimate.model);
  const name = path.split('/').pop() ?? path;
  document.title = `${name} \u00b7 estimate \u00b7 onnx-memopt`;
  const facts = [`${formatCount(estimate.parameters)} parameters`,
    ...estimate.setup.split(', ').map(printable),
    ...Object.entries(estimate.dims).map(
      ([dim, size]) => `${printable(dim)} = ${formatInteger(size)}`)];
  return h('header', { class: 'page-head' },
    h('div', {},
      h('p', { class: 'brand' },
        `onnx-memopt ${printable(estimate.tool.version)} \u00b7 estimate`),
      h('h1', { title: path }, name),
      h('ul', { class: 'facts' }, ...facts.map((fact) => h('li', {}, fact)))),
    themeButton());
}

function card(title: string, bytes: number, below: string): HTMLElement {
  return h('div', { class: 'card' }, h('h3', {}, title),
    h('p', { class: 'figure' }, formatBytes(bytes)),
    h('p', { class: 'was' }, below));
}

function verdict(estimate: Estimate): HTMLElement | null {
  if (estimate.budget_bytes === null) return null;
  const left = estimate.budget_bytes - estimate.total_bytes;
  return h('p', { class: left >= 0 ? 'hint' : 'notice', id: 'verdict' },
    left >= 0
      ? `Fits ${printable(estimate.budget)} with ${formatBytes(left)} to spare.`
      : `Does not fit ${printable(estimate.budget)}: ${formatBytes(-left)} ` +
        'too much.');
}

function summary(estimate: Estimate): HTMLElement {
  const cards = [
    card(estimate.gpus > 1 ? 'Fullest GPU' : 'GPU memory',
      estimate.total_bytes, `peak in ${printable(estimate.peak.phase)}`),
    card('Live at the peak', estimate.live_peak_bytes,
      'without allocator and context'),
  ];
  if (estimate.training) {
    cards.push(card('Saved activations', estimate.saved_activation_bytes,
      `${formatBytes(estimate.activation_bytes_a_sample)} a sample`));
  }
  if (estimate.gpus > 1) {
    cards.push(card('All GPUs', estimate.pooled_bytes,
      `${formatInteger(estimate.gpus)} together`));
  }
  if (estimate.host_bytes > 0) {
    cards.push(card('Host', estimate.host_bytes, 'offloaded'));
  }
  return section('summary', 'Memory', '',
    h('div', { class: 'cards' }, ...cards), verdict(estimate));
}

function bars(id: string, rows: { name: string; bytes: number; hint: string }[],
): HTMLElement {
  const largest = Math.max(1, ...rows.map((row) => row.bytes));
  return h('ul', { class: 'peak-list', id }, ...rows.map((row) => {
    const bar = h('i', { class: 'bar', 'aria-hidden': true });
    bar.style.width = `${Math.max(0.5, 100 * row.bytes / largest)}%`;
    return h('li', {},
      h('div', { class: 'peak-bar' }, bar,
        h('span', { class: 'bar-name' }, printable(row.name)),
        h('span', { class: 'bar-size' }, formatBytes(row.bytes))),
      h('p', { class: 'hint' }, printable(row.hint)));
  }));
}

function terms(estimate: Estimate): HTMLElement {
  return section('terms', 'What takes it at the peak',
    `${printable(estimate.peak.phase)}` +
      (estimate.peak.unit === '' ? '' : `, ${printable(estimate.peak.unit)}`) +
      '. The terms add up to the total.',
    bars('term-list', estimate.terms.map(
      ({ name, bytes, formula }) => ({ name, bytes, hint: formula }))),
    h('details', {}, h('summary', {}, 'The largest tensors there'),
      bars('tensor-list', estimate.at_peak.map(
        ({ name, bytes, category }) => ({ name, bytes, hint: category })))));
}

function timeline(estimate: Estimate): HTMLElement {
  return section('timeline', 'Memory over a step',
    'Drag to zoom, double-click to reset. Keys: arrows, Home, End, P for the ' +
    'peak.', stepChart(estimate));
}

function checkpoints(estimate: Estimate): HTMLElement | null {
  const curve = estimate.checkpoint_curve;
  const { checkpoints: again } = estimate;
  if (curve.length < 2 && again.length === 0) return null;
  return section('recomputation', 'Memory against recomputation',
    'Activations that are computed again in backward, and the arithmetic that ' +
    'adds to a step.',
    curve.length > 1 && curveChart(estimate),
    curve.length > 1 && plainTable(
      ['total', 'arithmetic', 'options'],
      curve.map((point) => [formatBytes(point.total_bytes),
        percent(point.overhead), code(point.flags || '--checkpoint none')]),
      [0, 1]),
    again.length > 0 && h('details', {},
      h('summary', {}, `Computed again here: ${formatInteger(again.length)} ` +
        `ranges, ${percent(estimate.recompute_overhead)} arithmetic`),
      plainTable(['from', 'to', 'units', 'FLOPs'],
        again.map((c) => [printable(c.first), printable(c.last),
          formatInteger(c.units), formatCount(c.flops)]), [2, 3])));
}

function perGpu(estimate: Estimate): HTMLElement | null {
  if (estimate.gpus < 2) return null;
  return section('gpus', 'Each GPU', '', plainTable(
    ['GPUs', 'parameters', 'states', 'activations', 'in flight', 'live peak',
      'total', 'host', ''],
    estimate.per_gpu.map((row) => [row.gpus, formatCount(row.parameters),
      formatBytes(row.states_bytes), formatBytes(row.activation_bytes),
      formatInteger(row.in_flight), formatBytes(row.live_peak_bytes),
      formatBytes(row.total_bytes), formatBytes(row.host_bytes),
      row.fullest ? h('span', { class: 'badge' }, 'fullest') : '']),
    [1, 2, 3, 4, 5, 6, 7]));
}

function fitText(fit: Fit): (string | HTMLElement)[] {
  if (fit.fits) return [`fits, ${formatBytes(fit.free_bytes)} free`, ''];
  if (fit.changes.length === 0) {
    return [`no: ${formatBytes(-fit.free_bytes)} missing`, ''];
  }
  return [`with ${fit.changes.map(printable).join(', ')}: ` +
    formatBytes(fit.changed_total_bytes), code(fit.flags)];
}

function rate(value: number): string {
  return value === 0 ? '\u2013' : value.toLocaleString('en-US');
}

function hardware(estimate: Estimate): HTMLElement | null {
  if (estimate.fits.length === 0) return null;
  return section('hardware', 'Hardware',
    'Dense arithmetic in TFLOP/s; links in both directions.', plainTable(
      ['GPU', 'memory', 'GB/s', 'link GB/s', 'fp32', 'tf32', '16-bit', 'fp8',
        'this set-up', 'options'],
      estimate.fits.map((fit) => [
        h('span', { title: `${fit.source.title}, ${fit.source.address}` },
          printable(fit.gpu)),
        formatBytes(fit.memory_bytes), rate(fit.bandwidth_gbs),
        rate(fit.nvlink_gbs), rate(fit.tflops.fp32), rate(fit.tflops.tf32),
        rate(fit.tflops.fp16), rate(fit.tflops.fp8), ...fitText(fit)]),
      [1, 2, 3, 4, 5, 6, 7]));
}

function batches(estimate: Estimate): HTMLElement | null {
  if (estimate.max_batch === null) return null;
  const { dimension, rows } = estimate.buckets;
  return section('batches', `Largest batch on ${printable(estimate.budget)}`,
    estimate.max_batch === 0 ? 'Not even one sample fits.'
      : `${formatInteger(estimate.max_batch)} samples a GPU.`,
    estimate.max_length !== null && h('p', { class: 'hint' },
      `Longest ${printable(dimension)} with batch ` +
      `${formatInteger(estimate.batch)}: ` +
      `${formatInteger(estimate.max_length)}.`),
    rows.length > 0 && plainTable([printable(dimension), 'batch'],
      rows.map((row) => [formatInteger(row.length), formatInteger(row.batch)]),
      [0, 1]));
}

function adviceRow(row: Advice): (string | HTMLElement)[] {
  return [printable(row.change), formatBytes(row.total_bytes),
    change(row.saved_bytes), printable(row.cost), code(row.flags)];
}

function advice(estimate: Estimate): HTMLElement | null {
  if (estimate.advice.length === 0) return null;
  const { combination } = estimate;
  return section('advice', 'What would change it',
    'Each tried on this model, the largest effect first.',
    plainTable(['change', 'total', 'against now', 'cost', 'options'],
      estimate.advice.map(adviceRow), [1, 2]),
    combination && h('p', { id: 'combination' },
      'Together, on the same GPUs and the same model: ',
      `${printable(combination.change)} give `,
      h('strong', {}, formatBytes(combination.total_bytes)), ' ',
      code(combination.flags)));
}

function termTable(rows: Term[]): HTMLElement {
  return plainTable(['term', 'bytes', 'formula'], rows.map((term) => [
    printable(term.name), formatBytes(term.bytes), printable(term.formula)]),
  [1]);
}

function rule(estimate: Estimate): HTMLElement | null {
  const { rule_of_thumb: thumb, published } = estimate;
  if (thumb.terms.length === 0 && published.length === 0) return null;
  return section('rule', 'What others would say',
    thumb.terms.length > 0
      ? `The rule of thumb, M = 4 N + A B + S, on one GPU: ` +
        `${formatBytes(thumb.bytes)}.` : '',
    thumb.terms.length > 0 && termTable(thumb.terms),
    thumb.notes.length > 0 && list(thumb.notes),
    published.length > 0 && h('h3', {}, 'Formulas of other tools'),
    published.length > 0 && termTable(published));
}

function allocators(estimate: Estimate): HTMLElement {
  const a = estimate.allocators;
  return section('allocators', 'Allocators',
    'What each reserves for the allocations of two steps, simulated.',
    plainTable(['allocator', 'reserved'], [
      ['PyTorch', formatBytes(a.caching_reserved_bytes)],
      ['PyTorch, expandable segments',
        formatBytes(a.expandable_reserved_bytes)],
      ['TensorFlow, memory growth', formatBytes(a.tensorflow_reserved_bytes)],
      ['ONNX Runtime, kNextPowerOfTwo', formatBytes(a.runtime_reserved_bytes)],
      ['ONNX Runtime, kSameAsRequested',
        formatBytes(a.runtime_same_reserved_bytes)],
    ], [1]), list(a.advice));
}

function units(estimate: Estimate): HTMLElement {
  const table = makeTable<Unit>({
    id: 'units',
    label: 'Units',
    rows: estimate.units,
    words: (u) => `${u.name} ${u.op}`,
    sortBy: 2,
    choose: () => undefined,
    columns: [
      { title: 'unit', width: '46%', value: (u) => printable(u.name) },
      { title: 'op', width: '22%', value: (u) => printable(u.op) },
      {
        title: 'kept', hint: 'What its backward frees', width: '104px',
        number: true, value: (u) => u.saved_bytes,
        text: (u) => formatBytes(u.saved_bytes),
      },
      {
        title: 'FLOPs', hint: 'Forward', width: '104px', number: true,
        value: (u) => u.flops, text: (u) => formatCount(u.flops),
      },
      {
        title: 'cut', hint: 'A block or a stage may begin here',
        width: '72px', value: (u) => u.cut ? 'yes' : '',
      },
    ],
  });
  const search = h('input', {
    type: 'search', id: 'search', placeholder: 'Search names and ops',
    'aria-label': 'Search units', autocomplete: 'off', spellcheck: 'false',
  });
  search.addEventListener('input', () => table.search(search.value));
  return section('unit-table', 'Units of the model',
    'A node, or several that PyTorch runs as one operator.',
    h('div', { class: 'toolbar' }, search), table.element);
}

export function buildEstimate(page: HTMLElement, estimate: Estimate): void {
  append(page,
    head(estimate),
    summary(estimate),
    timeline(estimate),
    terms(estimate),
    perGpu(estimate),
    advice(estimate),
    hardware(estimate),
    batches(estimate),
    checkpoints(estimate),
    rule(estimate),
    allocators(estimate),
    units(estimate),
    section('notes', 'Notes', '', list(estimate.notes)));
}
