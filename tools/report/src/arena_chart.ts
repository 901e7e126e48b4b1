// The arena: a rectangle for each buffer, from the step that makes it to its
// last use, at its offset. The chart library has the axes, the scales and the
// cursor; rectangles go through its drawing hook, so that tens of thousands of
// them are drawn anew at each move of a zoom.

import uPlot from 'uplot';
import {
  byteAxis, cursor, followKeys, followSize, followZoom, markStep, stepAxis,
} from './axes';
import { bufferAt, buffersOf } from './buffers';
import { h, replace } from './dom';
import { formatBytes, formatInteger, printable } from './format';
import type { Profile } from './report';
import { color, onThemeChange } from './theme';
import type { View } from './view';

const HEIGHT = 380;
const HEADROOM = 1.04;
const COLORS = 9; // --op-0 to --op-8; the last is for all other ops

interface Painting {
  legend: string[]; // op by colour
  groups: Int32Array[]; // buffers by colour
  colorOf: Uint8Array;
}

const paintings = new WeakMap<Profile, Painting>();

// The ops that make the most bytes have colours of their own.
function paintingOf(profile: Profile): Painting {
  const known = paintings.get(profile);
  if (known) return known;
  const buffers = buffersOf(profile);
  const opOf = (i: number) =>
    profile.steps.op[buffers.begin[i] ?? 0] ?? '?';
  const bytes = new Map<string, number>();
  for (let i = 0; i < buffers.count; ++i) {
    bytes.set(opOf(i), (bytes.get(opOf(i)) ?? 0) + (buffers.bytes[i] ?? 0));
  }
  const ops = [...bytes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    .map(([op]) => op);
  const legend = ops.slice(0, ops.length > COLORS ? COLORS - 1 : COLORS);
  const index = new Map(legend.map((op, i) => [op, i]));
  if (ops.length > COLORS) legend.push('other');
  const colorOf = new Uint8Array(buffers.count);
  const groups: number[][] = legend.map(() => []);
  for (let i = 0; i < buffers.count; ++i) {
    const at = index.get(opOf(i)) ?? COLORS - 1;
    colorOf[i] = at;
    groups[at]?.push(i);
  }
  const made = { legend, colorOf, groups: groups.map((g) => Int32Array.from(g)) };
  paintings.set(profile, made);
  return made;
}

function drawBuffers(chart: uPlot, view: View): void {
  const buffers = buffersOf(view.profile);
  const { groups } = paintingOf(view.profile);
  const { ctx } = chart;
  const { left, top, width, height } = chart.bbox;
  const { min, max } = view.zoom;
  const yMin = chart.scales.y?.min ?? 0;
  const yMax = chart.scales.y?.max ?? 1;
  const perStep = width / (max - min);
  const perByte = height / (yMax - yMin);
  // A gap between neighbours, where there is room for one.
  const gap = devicePixelRatio * 0.75;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  groups.forEach((group, at) => {
    ctx.fillStyle = color(`op-${at}`);
    for (const i of group) {
      const begin = buffers.begin[i] ?? 0;
      const end = buffers.end[i] ?? 0;
      if (end <= min || begin >= max) continue;
      const low = buffers.offset[i] ?? 0;
      const bytes = buffers.bytes[i] ?? 0;
      if (low + bytes <= yMin || low >= yMax) continue;
      const x = left + (begin - min) * perStep;
      const y = top + height - (low + bytes - yMin) * perByte;
      const w = (end - begin) * perStep;
      const tall = bytes * perByte;
      ctx.fillRect(x, y, w > 3 * gap ? w - gap : Math.max(w, 1),
        tall > 3 * gap ? tall - gap : Math.max(tall, 1));
    }
  });
  ctx.restore();
}

function describeBuffer(profile: Profile, i: number): [string, string][] {
  const buffers = buffersOf(profile);
  const begin = buffers.begin[i] ?? 0;
  const end = buffers.end[i] ?? 0;
  const { name, op } = profile.steps;
  const step = (at: number) =>
    `${formatInteger(at)} \u00b7 ${op[at] ?? ''} ${printable(name[at] ?? '')}`;
  return [
    ['size', formatBytes(buffers.bytes[i])],
    ['made at', step(begin)],
    ['last used at', step(end - 1)],
    ['offset', formatBytes(buffers.offset[i])],
  ];
}

export function arenaChart(view: View): HTMLElement {
  const frame = h('div', {
    class: 'chart', id: 'arena-chart', 'data-chart': true, tabindex: 0,
    role: 'group',
    'aria-label': 'Arena: buffers by step and offset; arrow keys move the step',
  });
  const legend = h('div', { class: 'legend', id: 'arena-legend' });
  const tip = h('div', { class: 'tip', role: 'status' });
  tip.hidden = true;
  let yRange: [number, number] | null = null;
  // With room above, so that the top is seen to be the top.
  const whole = (): [number, number] =>
    [0, Math.max(1, view.profile.arena_bytes) * HEADROOM];

  const chart = new uPlot({
    width: 640,
    height: HEIGHT,
    padding: [10, 30, 0, 0],
    legend: { show: false },
    cursor: {
      ...cursor(view),
      y: true,
      drag: { x: true, y: true, uni: 40, setScale: false, dist: 6 },
    },
    scales: {
      x: { time: false },
      y: {
        range: () => yRange ?? whole(),
      },
    },
    axes: [stepAxis(), byteAxis()],
    series: [{}, { scale: 'y', paths: () => null, points: { show: false } }],
    hooks: {
      draw: [(self) => drawBuffers(self, view)],
      setSelect: [(self) => {
        const { left, top, width, height } = self.select;
        if (width <= 0 && height <= 0) return;
        // A selection in one direction is as large as the chart in the other.
        if (height > 0 && height < self.over.clientHeight - 1) {
          yRange = [self.posToVal(top + height, 'y'),
            self.posToVal(top, 'y')];
          zoomY();
        }
        view.setZoom(self.posToVal(left, 'x'),
          self.posToVal(left + width, 'x'));
        self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
    },
  }, [[0, view.stepsOfBoth], [0, 0]], frame);

  const zoomY = () => {
    const [min, max] = yRange ?? whole();
    chart.setScale('y', { min, max });
  };

  const outline = (name: string) => {
    const element = h('div', { class: name, 'aria-hidden': true });
    element.hidden = true;
    chart.over.appendChild(element);
    return element;
  };
  const hovered = outline('outline');
  const selected = outline('outline outline-selected');
  let hover: number | null = null;

  const place = (element: HTMLElement, i: number | null) => {
    element.hidden = i === null;
    if (i === null) return;
    const buffers = buffersOf(view.profile);
    const left = chart.valToPos(buffers.begin[i] ?? 0, 'x');
    const right = chart.valToPos(buffers.end[i] ?? 0, 'x');
    const low = buffers.offset[i] ?? 0;
    const bottom = chart.valToPos(low, 'y');
    const top = chart.valToPos(low + (buffers.bytes[i] ?? 0), 'y');
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
    element.style.width = `${Math.max(2, right - left)}px`;
    element.style.height = `${Math.max(2, bottom - top)}px`;
  };
  const placeAll = () => {
    place(hovered, hover);
    place(selected, view.selected);
  };

  const showTip = (i: number | null, x: number, y: number) => {
    tip.hidden = i === null;
    if (i === null) return;
    replace(tip,
      h('strong', {}, printable(view.profile.buffers.tensor[i] ?? '')),
      h('dl', {}, ...describeBuffer(view.profile, i).flatMap(
        ([key, value]) => [h('dt', {}, key), h('dd', {}, value)])));
    const room = frame.clientWidth;
    const width = tip.offsetWidth;
    const right = x + 16 + width <= room;
    tip.style.left = `${Math.max(0, right ? x + 16 : x - width - 16)}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight / 2)}px`;
  };

  const hoverAt = (event: MouseEvent) => {
    const box = chart.over.getBoundingClientRect();
    const step = chart.posToVal(event.clientX - box.left, 'x');
    hover = bufferAt(buffersOf(view.profile), step,
      chart.posToVal(event.clientY - box.top, 'y'));
    view.hover(step);
    place(hovered, hover);
    const outer = frame.getBoundingClientRect();
    showTip(hover, event.clientX - outer.left, event.clientY - outer.top);
  };
  const leave = () => {
    hover = null;
    view.hover(null);
    place(hovered, null);
    tip.hidden = true;
  };
  chart.over.addEventListener('mousemove', hoverAt);
  chart.over.addEventListener('mouseleave', leave);
  chart.over.addEventListener('click', (event) => {
    hoverAt(event);
    view.pin(view.shownStep);
    view.select(hover);
  });

  const showLegend = () => replace(legend,
    ...paintingOf(view.profile).legend.map((op, i) => h('span', {},
      h('i', { class: `swatch swatch-${i}` }), printable(op))));

  followZoom(chart, view);
  followKeys(frame, view);
  followSize(chart, frame, () => HEIGHT);
  markStep(chart, view);
  (chart.hooks.draw ??= []).push(placeAll);
  view.listen((change) => {
    if (change === 'side') {
      yRange = null;
      leave();
      zoomY();
      showLegend();
      chart.redraw(false);
    }
    if (change === 'zoom' && yRange !== null &&
        view.zoom.max - view.zoom.min === view.stepsOfBoth) {
      yRange = null;
      zoomY();
    }
    if (change === 'selected') placeAll();
  });
  onThemeChange(() => chart.redraw(false, true));
  frame.appendChild(tip);
  showLegend();
  return h('div', {}, frame, legend);
}
