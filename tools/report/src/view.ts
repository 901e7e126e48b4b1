// What the charts show together: which model, which steps, which tensor. Each
// part of the page listens and draws itself again.

import type { Profile, Report, Side } from './report';

export interface Range {
  min: number;
  max: number;
}

export type Change = 'side' | 'zoom' | 'step' | 'selected';

export class View {
  side: Side;
  zoom: Range;
  // The step under the cursor, and the one that stays when it leaves.
  step: number | null = null;
  pinned: number;
  // A buffer of the profile that is shown.
  selected: number | null = null;

  private readonly listeners: ((change: Change) => void)[] = [];

  constructor(private readonly report: Report) {
    this.side = report.profile.after ? 'after' : 'before';
    this.zoom = { min: 0, max: this.stepsOfBoth };
    this.pinned = this.peakStep;
  }

  get hasBoth(): boolean {
    return this.report.profile.after !== null;
  }

  profileOf(side: Side): Profile {
    return (side === 'after' ? this.report.profile.after : null) ??
      this.report.profile.before;
  }

  get profile(): Profile {
    return this.profileOf(this.side);
  }

  get steps(): number {
    return this.profile.steps.name.length;
  }

  // Both models are drawn over the same axis.
  get stepsOfBoth(): number {
    return Math.max(1, this.profileOf('before').steps.name.length,
      this.profileOf('after').steps.name.length);
  }

  get peakStep(): number {
    const live = this.profile.steps.live_bytes;
    let peak = 0;
    for (let i = 1; i < live.length; ++i) {
      if ((live[i] ?? 0) > (live[peak] ?? 0)) peak = i;
    }
    return peak;
  }

  get shownStep(): number {
    return Math.min(this.step ?? this.pinned, Math.max(0, this.steps - 1));
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  private tell(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  setSide(side: Side): void {
    if (this.side === side) return;
    this.side = side;
    this.selected = null;
    this.step = null;
    this.pinned = this.peakStep;
    this.tell('side');
  }

  setZoom(min: number, max: number): void {
    const all = this.stepsOfBoth;
    const width = Math.min(all, Math.max(Math.min(4, all), max - min));
    const begin = Math.min(Math.max(0, min), all - width);
    if (begin === this.zoom.min && begin + width === this.zoom.max) return;
    this.zoom = { min: begin, max: begin + width };
    this.tell('zoom');
  }

  resetZoom(): void {
    this.setZoom(0, this.stepsOfBoth);
  }

  // By a factor, with the step at `center` staying where it is.
  zoomBy(factor: number, center: number): void {
    const { min, max } = this.zoom;
    this.setZoom(center - (center - min) * factor,
      center + (max - center) * factor);
  }

  hover(step: number | null): void {
    const next = step === null
      ? null : Math.max(0, Math.min(this.steps - 1, Math.floor(step)));
    if (next === this.step) return;
    this.step = next;
    this.tell('step');
  }

  pin(step: number): void {
    this.pinned = Math.max(0, Math.min(this.steps - 1, Math.floor(step)));
    this.step = null;
    const { min, max } = this.zoom;
    if (this.pinned < min || this.pinned >= max) {
      const half = (max - min) / 2;
      this.setZoom(this.pinned - half, this.pinned + half);
    }
    this.tell('step');
  }

  select(buffer: number | null): void {
    if (buffer === this.selected) return;
    this.selected = buffer;
    this.tell('selected');
  }
}
