// What both charts over the steps have in common: axes, colours, zoom by wheel
// and by drag, and the keyboard.

import type uPlot from 'uplot';
import { h } from './dom';
import { byteTicks } from './format';
import { color } from './theme';
import type { View } from './view';

const BYTE_STEPS = Array.from({ length: 60 }, (_, power) => 2 ** power);
const COUNT_STEPS = Array.from({ length: 18 }, (_, power) => 10 ** power)
  .flatMap((n) => [n, 2 * n, 5 * n]);

const FONT = '12px system-ui, sans-serif';

function axis(): uPlot.Axis {
  return {
    font: FONT,
    labelFont: FONT,
    stroke: () => color('muted'),
    grid: { stroke: () => color('grid'), width: 1 },
    ticks: { stroke: () => color('grid'), width: 1, size: 5 },
  };
}

export function stepAxis(): uPlot.Axis {
  return {
    ...axis(),
    incrs: COUNT_STEPS,
    space: 64,
    size: 34,
    values: (_, splits) => splits.map(
      (value) => Number.isInteger(value) ? value.toLocaleString('en-US') : ''),
  };
}

export function byteAxis(): uPlot.Axis {
  return {
    ...axis(),
    incrs: BYTE_STEPS,
    space: 36,
    size: (_, values) => {
      const longest = Math.max(4, ...(values ?? []).map((v) => v.length));
      return 14 + 6.6 * longest;
    },
    values: (_, splits) => {
      const { unit, name } = byteTicks(Math.max(...splits));
      return splits.map((value) => value === 0
        ? '0' : `${+(value / unit).toFixed(2)} ${name}`);
    },
  };
}

export function cursor(view: View): uPlot.Cursor {
  return {
    x: true,
    y: false,
    points: { show: false },
    drag: { x: true, y: false, setScale: false, dist: 6 },
    sync: {
      key: 'steps',
      scales: ['x', null],
      filters: {
        pub: (type) => type === 'mousemove' || type === 'mouseleave',
      },
    },
    bind: {
      dblclick: () => () => {
        view.resetZoom();
        return null;
      },
    },
  };
}

export function stepAt(chart: uPlot, event: MouseEvent): number {
  const left = event.clientX - chart.over.getBoundingClientRect().left;
  return chart.posToVal(left, 'x');
}

// Zoom that the view keeps, so that both charts have the same.
export function followZoom(chart: uPlot, view: View): void {
  const apply = () => chart.setScale('x', view.zoom);
  view.listen((change) => {
    if (change === 'zoom') apply();
  });
  apply();

  chart.over.addEventListener('wheel', (event) => {
    // A page that scrolls must not get stuck on a chart.
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey &&
        document.activeElement !== chart.root.closest('[data-chart]')) {
      return;
    }
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const delta = event.deltaX !== 0 ? event.deltaX : event.deltaY;
      const by = (view.zoom.max - view.zoom.min) * Math.sign(delta) * 0.1;
      view.setZoom(view.zoom.min + by, view.zoom.max + by);
      return;
    }
    view.zoomBy(event.deltaY < 0 ? 0.8 : 1.25, stepAt(chart, event));
  }, { passive: false });
}

// The step that was chosen keeps a mark when the cursor is elsewhere.
export function markStep(chart: uPlot, view: View): void {
  const mark = h('div', { class: 'step-mark', 'aria-hidden': true });
  chart.over.appendChild(mark);
  const place = () => {
    const left = chart.valToPos(view.pinned, 'x');
    const right = chart.valToPos(view.pinned + 1, 'x');
    mark.style.transform = `translateX(${left}px)`;
    mark.style.width = `${Math.max(2, right - left)}px`;
    mark.hidden = view.pinned < view.zoom.min || view.pinned >= view.zoom.max;
  };
  (chart.hooks.draw ??= []).push(place);
  view.listen(place);
}

// Keys for a focused chart: steps, zoom, the peak.
export function followKeys(frame: HTMLElement, view: View): void {
  frame.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = view.shownStep;
    const far = event.shiftKey ? 10 : 1;
    const page = Math.max(1, Math.round((view.zoom.max - view.zoom.min) / 10));
    const actions: Record<string, () => void> = {
      ArrowLeft: () => view.pin(at - far),
      ArrowRight: () => view.pin(at + far),
      PageUp: () => view.pin(at - page),
      PageDown: () => view.pin(at + page),
      Home: () => view.pin(0),
      End: () => view.pin(view.steps - 1),
      '+': () => view.zoomBy(0.5, at + 0.5),
      '=': () => view.zoomBy(0.5, at + 0.5),
      '-': () => view.zoomBy(2, at + 0.5),
      0: () => view.resetZoom(),
      Escape: () => view.resetZoom(),
      p: () => view.pin(view.peakStep),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

// Charts are as wide as what holds them.
export function followSize(
  chart: uPlot, frame: HTMLElement, height: () => number,
): void {
  new ResizeObserver(() => {
    const width = Math.floor(frame.clientWidth);
    if (width > 0 && width !== chart.width) {
      chart.setSize({ width, height: height() });
    }
  }).observe(frame);
}
