// What a training step makes again, and the plans that were possible: peak
// against added time.

import uPlot from 'uplot';
import { byteAxis, followSize, stepAxis } from './axes';
import { plainTable } from './details';
import { h, section } from './dom';
import { formatBytes, formatInteger, printable } from './format';
import type { Report } from './report';
import { color, onThemeChange } from './theme';

const HEIGHT = 280;

const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;

export function checkpointsSection(report: Report): HTMLElement | null {
  const checkpoints = report.checkpoints ?? [];
  if (checkpoints.length === 0) return null;
  const total = checkpoints.reduce((sum, { bytes }) => sum + bytes, 0);
  return section('checkpoints', 'Checkpoints',
    `${formatBytes(total)} of the forward pass are not kept: the backward ` +
    'pass makes these parts again.',
    plainTable(['from', 'to', 'nodes', 'not kept'], checkpoints.map((c) => [
      printable(c.first), printable(c.last), formatInteger(c.nodes),
      formatBytes(c.bytes)]), [2, 3]));
}

export function paretoSection(report: Report): HTMLElement | null {
  const plans = [...report.pareto ?? []]
    .sort((a, b) => a.added_time - b.added_time);
  if (plans.length === 0) return null;
  const frame = h('div', { class: 'chart', id: 'pareto-chart', role: 'img',
    'aria-label': 'Peak against added time; the table below has the numbers' });
  const times = plans.map((plan) => plan.added_time);
  const chart = new uPlot({
    width: 640,
    height: HEIGHT,
    padding: [14, 24, 0, 0],
    legend: { show: false },
    scales: {
      // Room around the points, and a range if there is one alone.
      x: {
        time: false,
        range: (_, __, max) => [-0.04 * Math.max(max, 0.01),
          1.04 * Math.max(max, 0.01)],
      },
      y: { range: (_, __, max) => [0, Math.max(1, max) * 1.08] },
    },
    axes: [{
      ...stepAxis(),
      incrs: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
      values: (_, splits) => splits.map(percent),
    }, byteAxis()],
    series: [{}, {
      scale: 'y', stroke: () => color('after'), width: 1.5,
      points: { show: true, size: 9, fill: () => color('after') },
    }],
  }, [times, plans.map((plan) => plan.peak_bytes)], frame);
  followSize(chart, frame, () => HEIGHT);
  onThemeChange(() => chart.redraw(false, true));
  return section('pareto', 'Memory against time',
    'Each point is a plan that no other one beats: what ONNX Runtime is ' +
    'predicted to take, and by how much longer a step is modelled to be.',
    frame, plainTable(['peak', 'added time'], plans.map((plan) => [
      formatBytes(plan.peak_bytes), percent(plan.added_time)]), [1]));
}
