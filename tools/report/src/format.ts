// Numbers as people read them, the same as in the text report.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function threeDigits(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return '?';
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit + 1 < UNITS.length) {
    value /= 1024;
    ++unit;
  }
  return unit === 0 ? `${bytes} B` : `${threeDigits(value)} ${UNITS[unit]}`;
}

// For axes, whose steps are round numbers of one unit.
export function byteTicks(max: number): { unit: number; name: string } {
  let unit = 1;
  let index = 0;
  while (max / unit >= 1024 && index + 1 < UNITS.length) {
    unit *= 1024;
    ++index;
  }
  return { unit, name: UNITS[index] ?? 'B' };
}

export function formatCount(count: number | null | undefined): string {
  if (count === null || count === undefined) return '?';
  if (count < 1000) return String(count);
  let value = count;
  let unit = '';
  for (const next of ['k', 'M', 'G', 'T', 'P']) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return `${threeDigits(value)} ${unit}`;
}

export function formatInteger(value: number): string {
  return value.toLocaleString('en-US');
}

// "-41.2 %"; empty where nothing changed.
export function formatChange(before: number, after: number): string {
  if (before === after) return '';
  if (before === 0) return 'new';
  const percent = 100 * (after / before - 1);
  if (Math.abs(percent) < 0.05) return '';
  const sign = percent > 0 ? '+' : '\u2212';
  return `${sign}${Math.abs(percent).toFixed(1)} %`;
}

// Names from a model may have control characters, or turn the direction of
// text: they become visible.
export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
