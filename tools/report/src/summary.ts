// The head of the page, and the numbers that matter most.

import { h, section } from './dom';
import { formatBytes, formatChange, formatInteger, printable } from './format';
import type { Peak, Report } from './report';
import { themeButton } from './theme';

export function pageHead(report: Report): HTMLElement {
  const { model } = report;
  const name = printable(model.path === '-' ? 'model from stdin' : model.path);
  document.title = `${name.split('/').pop() ?? name} \u00b7 onnx-memopt`;
  const dims = Object.entries(report.dims).map(([dim, { value, assumed }]) =>
    `${printable(dim)} = ${formatInteger(value)}${assumed ? ' (assumed)' : ''}`);
  const facts = [`${formatInteger(model.nodes)} nodes`, `opset ${model.opset}`,
    `file ${formatBytes(model.size_bytes)}`, ...dims];
  return h('header', { class: 'page-head' },
    h('div', {},
      h('p', { class: 'brand' },
        `onnx-memopt ${printable(report.tool.version)}`),
      h('h1', { title: name }, name.split('/').pop() ?? name),
      h('ul', { class: 'facts' }, ...facts.map((fact) => h('li', {}, fact)))),
    themeButton());
}

function card(title: string, before: number, after: number | null,
  hint: string): HTMLElement {
  const change = after === null ? '' : formatChange(before, after);
  const better = after !== null && after < before;
  return h('div', { class: 'card', title: hint },
    h('h3', {}, title),
    h('p', { class: 'figure' }, formatBytes(after ?? before),
      change !== '' && h('span',
        { class: `change ${better ? 'better' : 'worse'}` }, change)),
    h('p', { class: 'was' },
      after === null ? '\u00a0' : after === before ? 'unchanged'
        : change !== '' ? `was ${formatBytes(before)}`
          : `${formatBytes(Math.abs(before - after))} ` +
            `${better ? 'less' : 'more'}`));
}

export function summarySection(report: Report): HTMLElement {
  const { before, after } = report;
  const of = (get: (peak: Peak) => number): [number, number | null] =>
    [get(before), after && get(after)];
  const cards = [
    card('Live peak', ...of((p) => p.live_peak_bytes),
      'Activations that live at one step, at most'),
    card('Packed in an arena', ...of((p) => p.packed_peak_bytes),
      'With every activation at a fixed offset'),
    card('Weights', report.weights.bytes,
      after && report.weights.after_bytes, 'Initializers and constants'),
    card('Total', ...of((p) => p.total_bytes),
      'Weights, inputs and the packed activations'),
  ];
  if (before.runtime.default.first_peak_bytes > 0) {
    cards.push(
      card('Runtime, first run',
        ...of((p) => p.runtime.default.first_peak_bytes),
        'ONNX Runtime above the loaded model, predicted, with default options'),
      card('Runtime, later runs',
        ...of((p) => p.runtime.default.steady_peak_bytes),
        'ONNX Runtime from the second run on, predicted'));
  }
  const { budget, time_ratio: ratio } = report;
  return section('summary', 'Memory', after
    ? 'After the passes, and before them.' : 'As read: no pass ran.',
  h('div', { class: 'cards' }, ...cards),
  typeof ratio === 'number' && h('p', { class: 'hint' },
    `A run is modelled to take ${ratio.toFixed(2)} times as long as before.`),
  budget && h('p', { class: budget.met ? 'hint' : 'notice' },
    `Budget ${formatBytes(budget.bytes)}: ${budget.met ? 'met' : 'not met'}, ` +
    `${formatBytes(budget.reached_bytes)} reached.` +
    (budget.reason === null ? '' : ` ${printable(budget.reason)}`)),
  !report.complete && h('p', { class: 'notice' },
    `Incomplete: the size of ${report.unknown_tensors.length} tensors is ` +
    'unknown, so that the peaks are lower bounds.'));
}
