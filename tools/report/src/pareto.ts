// Memory against cost: one point for each plan, where a report has them.

import uPlot from 'uplot';
import { byteAxis, followSize, stepAxis } from './axes';
import { generic } from './details';
import { h, section } from './dom';
import { formatCount } from './format';
import { color, onThemeChange } from './theme';

const HEIGHT = 280;

interface Point {
  cost: number;
  bytes: number;
}

// The first number of bytes of an item, and its first other number.
function points(value: unknown): { points: Point[]; cost: string } | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const items = value as unknown[];
  const [first] = items;
  if (typeof first !== 'object' || first === null) return null;
  const numbers = Object.entries(first)
    .filter(([, item]) => typeof item === 'number').map(([key]) => key);
  const bytes = numbers.find((key) => key.endsWith('bytes'));
  const cost = numbers.find((key) => !key.endsWith('bytes'));
  if (bytes === undefined || cost === undefined) return null;
  const found: Point[] = [];
  for (const item of items as Record<string, unknown>[]) {
    const x = item[cost];
    const y = item[bytes];
    if (typeof x === 'number' && typeof y === 'number') {
      found.push({ cost: x, bytes: y });
    }
  }
  found.sort((a, b) => a.cost - b.cost);
  return { points: found, cost };
}

export function paretoSection(value: unknown): HTMLElement | null {
  if (value === undefined || value === null) return null;
  const found = points(value);
  if (!found) return section('pareto', 'Memory against time', '', generic(value));
  const frame = h('div', { class: 'chart', id: 'pareto-chart', role: 'img',
    'aria-label': 'Memory against cost; the table below has the numbers' });
  const chart = new uPlot({
    width: 640,
    height: HEIGHT,
    padding: [14, 24, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false },
      y: { range: (_, __, max) => [0, Math.max(1, max) * 1.08] },
    },
    axes: [{
      ...stepAxis(),
      values: (_, splits) => splits.map((value) => formatCount(value)),
    }, byteAxis()],
    series: [{}, {
      scale: 'y', stroke: () => color('after'), width: 1.5,
      points: { show: true, size: 9, fill: () => color('after') },
    }],
  }, [found.points.map((p) => p.cost), found.points.map((p) => p.bytes)],
  frame);
  followSize(chart, frame, () => HEIGHT);
  onThemeChange(() => chart.redraw(false, true));
  return section('pareto', 'Memory against time',
    `Each point is a plan: peak against ${found.cost.replace(/_/g, ' ')}.`,
    frame, generic(value));
}
