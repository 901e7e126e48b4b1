// Live memory over the steps: an area for each of the two models.

import uPlot from 'uplot';
import {
  byteAxis, cursor, followKeys, followSize, followZoom, markStep, stepAt,
  stepAxis,
} from './axes';
import { h } from './dom';
import { formatBytes, formatInteger, printable } from './format';
import type { Profile } from './report';
import { color, onThemeChange } from './theme';
import type { View } from './view';

const HEIGHT = 290;

// One more point than there are steps: the end of the last one.
function column(profile: Profile | null, length: number): (number | null)[] {
  const live = profile?.steps.live_bytes ?? [];
  const values = new Array<number | null>(length).fill(null);
  for (let i = 0; i < live.length; ++i) values[i] = live[i] ?? null;
  if (live.length > 0) values[live.length] = live[live.length - 1] ?? null;
  return values;
}

function series(name: string): uPlot.Series {
  const path = uPlot.paths.stepped?.({ align: 1 });
  return {
    label: name,
    scale: 'y',
    stroke: () => color(name),
    fill: () => color(`${name}-fill`),
    width: 1.5,
    points: { show: false },
    ...(path ? { paths: path } : {}),
  };
}

// A line at the highest step, with what it is.
function drawPeak(chart: uPlot, view: View): void {
  const live = view.profile.steps.live_bytes;
  const step = view.peakStep;
  const bytes = live[step] ?? 0;
  const x = chart.valToPos(step + 0.5, 'x', true);
  const { left, top, width, height } = chart.bbox;
  if (bytes === 0 || x < left || x > left + width) return;
  const y = chart.valToPos(bytes, 'y', true);
  const { ctx } = chart;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = color('peak');
  ctx.fillStyle = color('peak');
  ctx.lineWidth = scale;
  ctx.setLineDash([4 * scale, 3 * scale]);
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x, top + height);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.arc(x, y, 3.5 * scale, 0, 2 * Math.PI);
  ctx.fill();
  ctx.font = `600 ${12 * scale}px system-ui, sans-serif`;
  const text = `peak ${formatBytes(bytes)}`;
  const space = ctx.measureText(text).width + 10 * scale;
  ctx.textAlign = x + space > left + width ? 'right' : 'left';
  ctx.textBaseline = 'bottom';
  const at: [number, number] = [
    x + (ctx.textAlign === 'left' ? 8 : -8) * scale,
    Math.max(y - 2 * scale, top + 14 * scale)];
  // A rim, so that it can be read over the lines of the other area.
  ctx.strokeStyle = color('card');
  ctx.lineWidth = 4 * scale;
  ctx.lineJoin = 'round';
  ctx.strokeText(text, ...at);
  ctx.fillText(text, ...at);
  ctx.restore();
}

export function memoryChart(view: View): HTMLElement {
  const frame = h('div', {
    class: 'chart', id: 'memory-chart', 'data-chart': true, tabindex: 0,
    role: 'slider', 'aria-label': 'Step of the run, with its live memory',
    'aria-valuemin': 0,
  });
  const length = view.stepsOfBoth + 1;
  const steps = Array.from({ length }, (_, i) => i);
  const data: uPlot.AlignedData = view.hasBoth
    ? [steps, column(view.profileOf('before'), length),
      column(view.profileOf('after'), length)]
    : [steps, column(view.profileOf('before'), length)];

  const chart = new uPlot({
    width: 640,
    height: HEIGHT,
    padding: [18, 30, 0, 0],
    legend: { show: false },
    cursor: cursor(view),
    scales: {
      x: { time: false },
      y: { range: (_, __, max) => [0, Math.max(1, max) * 1.08] },
    },
    axes: [stepAxis(), byteAxis()],
    series: view.hasBoth
      ? [{}, series('before'), series('after')] : [{}, series('after')],
    hooks: {
      draw: [(self) => drawPeak(self, view)],
      setSelect: [(self) => {
        const { left, width } = self.select;
        if (width <= 0) return;
        view.setZoom(self.posToVal(left, 'x'),
          self.posToVal(left + width, 'x'));
        self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
    },
  }, data, frame);

  chart.over.addEventListener('mousemove',
    (event) => view.hover(stepAt(chart, event)));
  chart.over.addEventListener('mouseleave', () => view.hover(null));
  chart.over.addEventListener('click',
    (event) => view.pin(stepAt(chart, event)));

  const describe = () => {
    const step = view.shownStep;
    const { name, op, live_bytes } = view.profile.steps;
    frame.setAttribute('aria-valuemax', String(Math.max(0, view.steps - 1)));
    frame.setAttribute('aria-valuenow', String(step));
    frame.setAttribute('aria-valuetext',
      `step ${formatInteger(step)}, ${op[step] ?? ''} ` +
      `${printable(name[step] ?? '')}, ${formatBytes(live_bytes[step] ?? 0)}`);
  };

  followZoom(chart, view);
  followKeys(frame, view);
  followSize(chart, frame, () => HEIGHT);
  markStep(chart, view);
  view.listen((change) => {
    if (change === 'side') chart.redraw(false);
    describe();
  });
  onThemeChange(() => chart.redraw(false, true));
  describe();
  return frame;
}
