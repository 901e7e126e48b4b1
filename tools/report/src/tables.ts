// The tables of tensors and of nodes, with one search for both.

import { h, section } from './dom';
import { formatBytes, formatCount, formatInteger, printable } from './format';
import type { Node, Report, Tensor } from './report';
import { makeTable, type Table } from './table';
import type { View } from './view';

function graphName(graph: number | undefined): string {
  return graph === undefined ? 'main' : `subgraph ${graph}`;
}

// Where the charts have a step of a graph; they show a subgraph once at most.
function flatSteps(view: View): Map<string, number> {
  const flat = new Map<string, number>();
  const seen = new Map<number, number>();
  view.profile.steps.graph.forEach((graph, at) => {
    const index = seen.get(graph) ?? 0;
    seen.set(graph, index + 1);
    flat.set(`${graph}:${index}`, at);
  });
  return flat;
}

function lastStep(tensor: Tensor): number {
  return Math.max(tensor.begin, tensor.end - 1);
}

function tensorTable(report: Report, view: View): Table {
  // A tensor that shares bytes is drawn under the name of the first.
  const firstOf = new Map<number, string>();
  for (const tensor of report.tensors) {
    if (!firstOf.has(tensor.storage)) firstOf.set(tensor.storage, tensor.name);
  }
  const choose = (tensor: Tensor) => {
    const name = firstOf.get(tensor.storage) ?? tensor.name;
    const { buffers } = view.profile;
    const at = buffers.tensor.indexOf(name);
    if (at >= 0) {
      view.select(at);
      view.pin(buffers.begin[at] ?? 0);
      return;
    }
    view.select(null);
    const step = flatSteps(view).get(`${tensor.graph ?? 0}:${tensor.begin}`);
    if (step !== undefined) view.pin(step);
  };
  return makeTable<Tensor>({
    id: 'tensors',
    label: 'Tensors',
    rows: report.tensors,
    words: (t) => [t.name, t.producer ?? '', t.kind, t.dtype ?? '',
      t.shape ?? ''].join(' '),
    sortBy: 1,
    choose,
    columns: [
      { title: 'tensor', width: '36%', value: (t) => printable(t.name) },
      {
        title: 'bytes', width: '104px', number: true, value: (t) => t.bytes,
        text: (t) => formatBytes(t.bytes),
      },
      { title: 'kind', width: '96px', value: (t) => t.kind },
      {
        title: 'type', width: '28%',
        value: (t) => printable(`${t.dtype ?? ''}${t.shape ?? ''}`),
      },
      {
        title: 'made by', width: '36%',
        value: (t) => printable(t.producer ?? ''),
      },
      {
        title: 'from', hint: 'First step of its graph at which it lives',
        width: '84px', number: true, value: (t) => t.begin,
        text: (t) => formatInteger(t.begin),
      },
      {
        title: 'to', hint: 'Last step at which it lives',
        width: '84px', number: true, value: lastStep,
        text: (t) => formatInteger(lastStep(t)),
      },
      { title: 'graph', width: '112px', value: (t) => graphName(t.graph) },
    ],
  });
}

function nodeTable(report: Report, view: View): Table {
  return makeTable<Node>({
    id: 'nodes',
    label: 'Nodes',
    rows: [...report.nodes, ...report.inner_nodes],
    words: (n) => `${n.name} ${n.op}`,
    sortBy: 3,
    choose: (node) => {
      const key = `${node.graph ?? 0}:${node.index}`;
      const step = flatSteps(view).get(key);
      if (step !== undefined) view.pin(step);
    },
    columns: [
      {
        title: 'step', hint: 'In its graph', width: '84px', number: true,
        value: (n) => n.index, text: (n) => formatInteger(n.index),
      },
      { title: 'node', width: '65%', value: (n) => printable(n.name) },
      { title: 'op', width: '35%', value: (n) => printable(n.op) },
      {
        title: 'live', hint: 'Activations of its graph while it runs',
        width: '104px', number: true, value: (n) => n.live_bytes,
        text: (n) => formatBytes(n.live_bytes),
      },
      {
        title: 'results', width: '104px', number: true,
        value: (n) => n.output_bytes, text: (n) => formatBytes(n.output_bytes),
      },
      {
        title: 'FLOPs', width: '104px', number: true, value: (n) => n.flops,
        text: (n) => formatCount(n.flops),
      },
      {
        title: 'traffic', hint: 'Bytes read and written', width: '104px',
        number: true, value: (n) => n.traffic_bytes,
        text: (n) => formatBytes(n.traffic_bytes),
      },
      { title: 'graph', width: '112px', value: (n) => graphName(n.graph) },
    ],
  });
}

export function tablesSection(report: Report, view: View): HTMLElement {
  const tables = [
    { name: 'Tensors', table: tensorTable(report, view) },
    { name: 'Nodes', table: nodeTable(report, view) },
  ];
  const search = h('input', {
    type: 'search', id: 'search', placeholder: 'Search names, ops, shapes',
    'aria-label': 'Search tensors and nodes', autocomplete: 'off',
    spellcheck: 'false',
  });
  search.addEventListener('input', () => {
    for (const { table } of tables) table.search(search.value);
  });

  const tabs = h('div', {
    class: 'segmented', role: 'tablist', 'aria-label': 'Table',
  });
  const buttons = tables.map(({ name }, i) => h('button', {
    type: 'button', role: 'tab', id: `tab-${name.toLowerCase()}`,
    'aria-controls': `panel-${i}`,
  }, name));
  const panels = tables.map(({ table }, i) => h('div', {
    role: 'tabpanel', id: `panel-${i}`,
    'aria-labelledby': buttons[i]?.id,
  }, table.element));
  const show = (at: number) => {
    buttons.forEach((button, i) => {
      button.setAttribute('aria-selected', String(i === at));
      button.tabIndex = i === at ? 0 : -1;
    });
    panels.forEach((panel, i) => {
      panel.hidden = i !== at;
    });
  };
  buttons.forEach((button, i) => {
    button.addEventListener('click', () => show(i));
    button.addEventListener('keydown', (event) => {
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      show(1 - i);
      buttons[1 - i]?.focus();
    });
    tabs.appendChild(button);
  });
  show(0);
  // As on many sites: a slash goes to the search.
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    search.focus();
  });
  return section('tables', 'Tensors and nodes',
    `${view.hasBoth ? 'After the passes. ' : ''}A click on a row shows it in ` +
    'the charts above.',
    h('div', { class: 'toolbar' }, tabs, search), ...panels);
}
