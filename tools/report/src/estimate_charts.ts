// The charts of an estimate: live memory over a step, and memory against
// recomputation.

import uPlot from 'uplot';
import { byteAxis, followSize, stepAxis } from './axes';
import { h } from './dom';
import { formatBytes, formatInteger, printable } from './format';
import type { Estimate, Point } from './estimate_report';
import { color, onThemeChange } from './theme';

const HEIGHT = 280;

function phaseOf(point: Point): string {
  return point.recompute ? 'recompute' : point.phase;
}

function bytesScale(): uPlot.Scale {
  return { range: (_, __, max) => [0, Math.max(1, max) * 1.08] };
}

// Where phases begin, with their names, at the top of the plot; names that have
// no room are left out.
function drawPhases(chart: uPlot, points: Point[]): void {
  const { ctx } = chart;
  const { left, top, width, height } = chart.bbox;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textBaseline = 'top';
  ctx.textAlign = 'left';
  ctx.fillStyle = color('muted');
  ctx.strokeStyle = color('line');
  ctx.lineWidth = scale;
  let free = left;
  points.forEach((point, i) => {
    if (i > 0 && points[i - 1]?.phase === point.phase) return;
    const x = chart.valToPos(i, 'x', true);
    if (x < left - 1 || x > left + width) return;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    const space = ctx.measureText(point.phase).width + 8 * scale;
    if (x < free || x + space > left + width) return;
    ctx.fillText(point.phase, x + 4 * scale, top + 3 * scale);
    free = x + space;
  });
  ctx.restore();
}

function drawPeak(chart: uPlot, step: number, bytes: number): void {
  const { ctx } = chart;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.fillStyle = color('peak');
  ctx.beginPath();
  ctx.arc(chart.valToPos(step + 0.5, 'x', true),
    chart.valToPos(bytes, 'y', true), 4 * scale, 0, 2 * Math.PI);
  ctx.fill();
  ctx.restore();
}

// A slider over the moments of a step; what is there is said below it.
export function stepChart(estimate: Estimate): HTMLElement {
  const points = estimate.timeline;
  const live = points.map((point) => point.live_bytes);
  const peak = live.reduce(
    (best, bytes, i) => bytes > (live[best] ?? 0) ? i : best, 0);
  const frame = h('div', {
    class: 'chart', id: 'step-chart', tabindex: 0, role: 'slider',
    'aria-label': 'Moment of the step, with its live memory',
    'aria-valuemin': 0, 'aria-valuemax': Math.max(0, points.length - 1),
  });
  const line = h('p', { class: 'hint', id: 'step-line', role: 'status' });
  let chosen = peak;
  const show = (at: number) => {
    const point = points[at];
    if (!point) return;
    const text = `${formatBytes(point.live_bytes)} in ${phaseOf(point)}` +
      (point.unit === '' ? '' : `, ${printable(point.unit)}`) +
      ` (moment ${formatInteger(at)} of ${formatInteger(points.length)}` +
      `${at === peak ? ', the peak' : ''})`;
    line.textContent = text;
    frame.setAttribute('aria-valuenow', String(at));
    frame.setAttribute('aria-valuetext', text);
  };
  const path = uPlot.paths.stepped?.({ align: 1 });
  const chart = new uPlot({
    width: 640,
    height: HEIGHT,
    padding: [14, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
    scales: { x: { time: false }, y: bytesScale() },
    axes: [stepAxis(), byteAxis()],
    series: [{}, {
      scale: 'y', stroke: () => color('after'),
      fill: () => color('after-fill'), width: 1.5, points: { show: false },
      ...(path ? { paths: path } : {}),
    }],
    hooks: {
      draw: [(self) => {
        drawPhases(self, points);
        drawPeak(self, peak, live[peak] ?? 0);
      }],
      setCursor: [(self) => {
        const { left } = self.cursor;
        show(left === undefined || left < 0 ? chosen : Math.max(0, Math.min(
          points.length - 1, Math.floor(self.posToVal(left, 'x')))));
      }],
    },
  }, [[...live.keys(), live.length], [...live, live[live.length - 1] ?? 0]],
  frame);
  frame.addEventListener('keydown', (event) => {
    const far = event.shiftKey ? 10 : 1;
    const moves: Record<string, number> = {
      ArrowRight: chosen + far, ArrowLeft: chosen - far, Home: 0,
      End: points.length - 1, p: peak,
    };
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    chosen = Math.max(0, Math.min(points.length - 1, to));
    show(chosen);
  });
  followSize(chart, frame, () => HEIGHT);
  onThemeChange(() => chart.redraw(false, true));
  show(peak);
  return h('div', {}, frame, line);
}

export function curveChart(estimate: Estimate): HTMLElement {
  const frame = h('div', {
    class: 'chart', id: 'curve-chart', role: 'img',
    'aria-label':
      'Memory against recomputation; the table below has the numbers',
  });
  const points = estimate.checkpoint_curve;
  const chart = new uPlot({
    width: 640,
    height: HEIGHT,
    padding: [14, 24, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: {
        time: false,
        range: (_, __, max) => [0, Math.max(0.01, max) * 1.05],
      },
      y: bytesScale(),
    },
    axes: [{
      ...stepAxis(),
      incrs: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1],
      values: (_, splits) => splits.map(
        (value) => `+${Math.round(100 * value)} %`),
    }, byteAxis()],
    series: [{}, {
      scale: 'y', stroke: () => color('after'), width: 1.5,
      points: { show: true, size: 9, fill: () => color('after') },
    }],
  }, [points.map((p) => p.overhead), points.map((p) => p.total_bytes)], frame);
  followSize(chart, frame, () => HEIGHT);
  onThemeChange(() => chart.redraw(false, true));
  return frame;
}
