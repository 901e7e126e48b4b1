// The rest of the report: the peak, passes, predictions, and lists.

import { h, section } from './dom';
import {
  formatBytes, formatChange, formatCount, formatInteger, printable,
} from './format';
import type { Peak, Report, Tensor } from './report';

const FIRST_ROWS = 12;
const MAX_ITEMS = 200;

export function plainTable(head: string[], rows: (string | HTMLElement)[][],
  numbers: number[] = []): HTMLElement {
  const cls = (i: number) => numbers.includes(i) ? 'number' : '';
  return h('div', { class: 'plain', tabindex: 0, role: 'region',
    'aria-label': head.join(', ') },
  h('table', {},
    h('thead', {}, h('tr', {}, ...head.map((text, i) =>
      h('th', { scope: 'col', class: cls(i) }, text)))),
    h('tbody', {}, ...rows.map((row) => h('tr', {}, ...row.map((cell, i) =>
      h('td', { class: cls(i) }, cell)))))));
}

function peakRow(tensor: Tensor, largest: number): HTMLElement {
  const bar = h('i', { class: 'bar', 'aria-hidden': true });
  bar.style.width =
    `${largest > 0 ? Math.max(0.5, 100 * (tensor.bytes ?? 0) / largest) : 0}%`;
  const where = tensor.graph === undefined
    ? '' : ` of subgraph ${tensor.graph}`;
  return h('li', {},
    h('div', { class: 'peak-bar' }, bar,
      h('span', { class: 'bar-name' }, printable(tensor.name)),
      h('span', { class: 'bar-size' }, formatBytes(tensor.bytes))),
    h('p', { class: 'hint' },
      printable(`${tensor.dtype ?? ''}${tensor.shape ?? ''}`),
      ' \u00b7 ', tensor.producer === null
        ? tensor.kind : `made by ${printable(tensor.producer)}`,
      ` \u00b7 steps ${formatInteger(tensor.begin)} to ` +
      `${formatInteger(Math.max(tensor.begin, tensor.end - 1))}${where}`));
}

export function peakSection(report: Report): HTMLElement {
  const peak = report.after ?? report.before;
  // Empty tensors, which passes use to build conditions, say nothing here.
  const tensors = report.at_peak.filter((tensor) => tensor.bytes !== 0);
  const largest = tensors[0]?.bytes ?? 0;
  const list = h('ul', { class: 'peak-list', id: 'peak-list' });
  const show = (count: number) => {
    for (const tensor of tensors.slice(list.childElementCount, count)) {
      list.appendChild(peakRow(tensor, largest));
    }
  };
  show(FIRST_ROWS);
  const rest = tensors.length - FIRST_ROWS;
  const more = h('button', { type: 'button', class: 'more' },
    `Show ${formatInteger(rest)} more`);
  more.addEventListener('click', () => {
    show(tensors.length);
    more.remove();
  });
  const formulas = peak.live_peak_formulas ?? [];
  return section('peak', 'At the peak', peak.peak_step < 0
    ? 'Nothing is allocated.'
    : `${printable(peak.peak_op)} ${printable(peak.peak_node)}, step ` +
      `${formatInteger(peak.peak_step)} of the main graph: ` +
      `${formatBytes(peak.live_peak_bytes)} live.`,
  list, rest > 0 && more,
  formulas.length > 0 && h('details', {},
    h('summary', {}, 'The live peak for any sizes'),
    h('p', { class: 'hint' }, formulas.length > 1
      ? 'Bytes; the largest of these:' : 'Bytes:'),
    h('ul', { class: 'formulas' }, ...formulas.map(
      (formula) => h('li', {}, h('code', {}, printable(formula)))))));
}

export function passesSection(report: Report): HTMLElement | null {
  if (report.passes.length === 0) return null;
  return section('passes', 'Passes', 'What each did, and what it left and why.',
    h('ol', { class: 'passes' }, ...report.passes.map((pass) => h('li', {},
      h('div', { class: 'pass-head' },
        h('code', {}, printable(pass.name)),
        h('span', { class: `badge ${pass.changed ? 'changed' : ''}` },
          pass.changed ? 'changed the model' : 'no change'),
        h('span', { class: 'hint' }, `${pass.seconds.toFixed(3)} s`)),
      pass.remarks.length === 0
        ? h('p', { class: 'hint' }, pass.changed ? '' : 'Nothing to gain.')
        : h('ul', {}, ...pass.remarks.map(
          // An arrow in one piece, which no line ends within.
          (remark) => h('li', {}, printable(remark)
            .replaceAll(' -> ', ' \u2192\u00a0'))))))));
}

export function runtimeSection(report: Report): HTMLElement {
  const { before, after } = report;
  const row = (title: string, get: (peak: Peak) => number) => {
    const was = get(before);
    if (!after) return [title, formatBytes(was)];
    return [title, formatBytes(was), formatBytes(get(after)),
      formatChange(was, get(after)) || '\u2013'];
  };
  return section('runtime', 'In ONNX Runtime',
    'Predicted, above the loaded model and without the runtime\u2019s own ' +
    'fusions, with one thread.',
    plainTable(after ? ['session options', 'before', 'after', 'change']
      : ['session options', 'peak'], [
      row('as they come, first run', (p) => p.runtime.default.first_peak_bytes),
      row('as they come, later runs',
        (p) => p.runtime.default.steady_peak_bytes),
      row('no arena, no pattern, first run',
        (p) => p.runtime.bare.first_peak_bytes),
      row('no arena, no pattern, later runs',
        (p) => p.runtime.bare.steady_peak_bytes),
    ], [1, 2, 3]));
}

export function sweepSection(report: Report): HTMLElement | null {
  const [first] = report.sweep;
  if (!first) return null;
  const names = Object.keys(first.dims);
  const hasAfter = first.after !== null;
  const rows = report.sweep.map((point) => [
    ...names.map((name) => formatInteger(point.dims[name] ?? 0)),
    formatBytes(point.before.live_peak_bytes),
    ...(point.after ? [formatBytes(point.after.live_peak_bytes)] : []),
    formatBytes((point.after ?? point.before).packed_peak_bytes),
    formatBytes((point.after ?? point.before).runtime.default
      .steady_peak_bytes),
  ]);
  const head = [...names.map(printable), 'live peak',
    ...(hasAfter ? ['live after'] : []), 'packed', 'ONNX Runtime, later runs'];
  return section('sweep', 'Sizes',
    'The rest of the report is about the largest.',
    plainTable(head, rows, head.map((_, i) => i)));
}

function list(items: string[]): HTMLElement {
  return h('ul', { class: 'notes' },
    ...items.slice(0, MAX_ITEMS).map((text) => h('li', {}, printable(text))),
    items.length > MAX_ITEMS && h('li', {},
      `and ${formatInteger(items.length - MAX_ITEMS)} more, in the JSON`));
}

export function notesSection(report: Report): HTMLElement | null {
  const groups: [string, string[]][] = [
    ['Warnings', report.warnings],
    ['Weights', report.weights.notes],
    ['Tensors of unknown size', report.unknown_tensors],
    ['Files written', report.outputs],
  ];
  const shown = groups.filter(([, items]) => items.length > 0);
  if (shown.length === 0) return null;
  return section('notes', 'Notes', '', ...shown.map(([title, items]) =>
    h('div', {}, h('h3', {}, title), list(items))));
}

// What this version of the page knows no better form for.
export function generic(value: unknown, depth = 0): HTMLElement {
  if (Array.isArray(value)) {
    const items = value.slice(0, MAX_ITEMS) as unknown[];
    const objects = items.filter((item): item is Record<string, unknown> =>
      typeof item === 'object' && item !== null && !Array.isArray(item));
    if (objects.length === items.length && items.length > 0) {
      const keys = [...new Set(objects.flatMap((item) => Object.keys(item)))];
      return plainTable(keys.map(printable), objects.map(
        (item) => keys.map((key) => scalar(key, item[key]))));
    }
    return h('ul', { class: 'notes' }, ...items.map(
      (item) => h('li', {}, depth < 4 ? generic(item, depth + 1)
        : printable(JSON.stringify(item)))));
  }
  if (typeof value === 'object' && value !== null) {
    return h('dl', { class: 'generic' }, ...Object.entries(value).flatMap(
      ([key, item]) => [h('dt', {}, printable(key)),
        h('dd', {}, typeof item === 'object' && item !== null && depth < 4
          ? generic(item, depth + 1) : scalar(key, item))]));
  }
  return h('span', {}, scalar('', value));
}

function scalar(key: string, value: unknown): string {
  if (typeof value === 'number') {
    if (key.endsWith('bytes')) return formatBytes(value);
    return key.endsWith('flops') ? formatCount(value) : String(value);
  }
  if (typeof value === 'string') return printable(value);
  return value === undefined ? '' : printable(JSON.stringify(value));
}
