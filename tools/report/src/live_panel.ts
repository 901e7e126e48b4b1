// Who lives at the step under the cursor, the largest first.

import { buffersOf, liveAt } from './buffers';
import { h, replace } from './dom';
import { formatBytes, formatInteger, printable } from './format';
import type { View } from './view';

const ROWS = 9;

export function livePanel(view: View): HTMLElement {
  const panel = h('aside', {
    class: 'live', id: 'live', 'aria-label': 'Tensors that live at the step',
  });

  const show = () => {
    const { profile } = view;
    const step = view.shownStep;
    const buffers = buffersOf(profile);
    const live = liveAt(buffers, step);
    const total = profile.steps.live_bytes[step] ?? 0;
    const largest = buffers.bytes[live[0] ?? -1] ?? 0;
    const shown = live.slice(0, ROWS);
    const rest = live.slice(ROWS)
      .reduce((sum, i) => sum + (buffers.bytes[i] ?? 0), 0);
    replace(panel,
      h('div', { class: 'live-head' },
        h('span', { class: 'live-step' },
          `Step ${formatInteger(step)} of ${formatInteger(view.steps)}`),
        h('span', { class: 'live-total' }, formatBytes(total))),
      h('p', { class: 'live-node' },
        h('b', {}, printable(profile.steps.op[step] ?? 'no step')), ' ',
        printable(profile.steps.name[step] ?? '')),
      h('ul', { class: 'bars' }, ...shown.map((i) => {
        const name = printable(profile.buffers.tensor[i] ?? '');
        const bar = h('i', { class: 'bar', 'aria-hidden': true });
        bar.style.width = `${largest > 0
          ? Math.max(1, 100 * (buffers.bytes[i] ?? 0) / largest) : 0}%`;
        const button = h('button', { title: name, type: 'button' }, bar,
          h('span', { class: 'bar-name' }, name),
          h('span', { class: 'bar-size' }, formatBytes(buffers.bytes[i])));
        button.addEventListener('click', () => view.select(i));
        return h('li', { class: i === view.selected ? 'chosen' : '' }, button);
      })),
      live.length > ROWS && h('p', { class: 'hint' },
        `and ${formatInteger(live.length - ROWS)} more, ${formatBytes(rest)}`),
      live.length === 0 && h('p', { class: 'hint' }, 'Nothing is allocated.'));
  };

  view.listen((change) => {
    if (change !== 'zoom') show();
  });
  show();
  return panel;
}
