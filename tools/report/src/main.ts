// The page: reads the report inside the file and puts the parts together.

import { arenaChart } from './arena_chart';
import {
  notesSection, passesSection, peakSection, runtimeSection, sweepSection,
} from './details';
import { append, h, section } from './dom';
import { buildEstimate } from './estimate';
import { type Estimate, isEstimate } from './estimate_report';
import { livePanel } from './live_panel';
import { memoryChart } from './memory_chart';
import { type Report, readReport, type Side } from './report';
import { sessionsSection } from './sessions';
import { pageHead, summarySection } from './summary';
import { tablesSection } from './tables';
import { startTheme } from './theme';
import { checkpointsSection, paretoSection } from './training';
import { View } from './view';

function sideSwitch(view: View): HTMLElement | null {
  if (!view.hasBoth) return null;
  const group = h('div', {
    class: 'segmented', role: 'group', 'aria-label': 'Which model is shown',
    id: 'side',
  });
  const buttons = (['before', 'after'] as Side[]).map((side) => {
    const button = h('button', { type: 'button', 'data-side': side },
      h('i', { class: `swatch swatch-${side}` }),
      side === 'before' ? 'Before' : 'After');
    button.addEventListener('click', () => view.setSide(side));
    group.appendChild(button);
    return { side, button };
  });
  const show = () => {
    for (const { side, button } of buttons) {
      button.setAttribute('aria-pressed', String(side === view.side));
    }
  };
  view.listen(show);
  show();
  return group;
}

function zoomButtons(view: View): HTMLElement {
  const make = (text: string, label: string, run: () => void) => {
    const button = h('button',
      { type: 'button', title: label, 'aria-label': label }, text);
    button.addEventListener('click', run);
    return button;
  };
  return h('div', { class: 'buttons', id: 'zoom' },
    make('\u2212', 'Zoom out', () => view.zoomBy(2, view.shownStep + 0.5)),
    make('+', 'Zoom in', () => view.zoomBy(0.5, view.shownStep + 0.5)),
    make('Reset', 'Show all steps', () => view.resetZoom()),
    make('Peak', 'Go to the peak', () => view.pin(view.peakStep)));
}

function build(report: Report | Estimate): void {
  const page = document.getElementById('page');
  if (!page) return;
  if (isEstimate(report)) {
    buildEstimate(page, report);
  } else {
    buildReport(page, report);
  }
  document.documentElement.dataset.ready = 'true';
}

function buildReport(page: HTMLElement, report: Report): void {
  const view = new View(report);
  append(page,
    pageHead(report),
    summarySection(report),
    section('timeline', 'Memory over the run',
      'Drag to zoom, double-click to reset; Ctrl and wheel zoom too. ' +
      'Keys: arrows, + \u2212 0, P for the peak.',
      h('div', { class: 'toolbar' }, sideSwitch(view), zoomButtons(view)),
      h('div', { class: 'timeline' }, memoryChart(view), livePanel(view))),
    section('arena', 'The arena',
      'Each rectangle is a buffer: from the step that makes it to its last ' +
      'use, at its offset. Drag to zoom in both directions.',
      arenaChart(view)),
    peakSection(report),
    tablesSection(report, view),
    passesSection(report),
    runtimeSection(report),
    sessionsSection(report.session_options,
      report.outputs.find((file) => file.endsWith('.onnx')) ??
        report.model.path),
    checkpointsSection(report),
    paretoSection(report),
    sweepSection(report),
    notesSection(report),
    h('footer', {}, `SHA-256 of the model: ${report.model.sha256}`));
}

startTheme();
build(readReport());
