// Light or dark: as the system has it, until somebody chooses. Charts take
// their colours from the style sheet and are told when it changes.

import { h } from './dom';

type Theme = 'light' | 'dark';

const listeners: (() => void)[] = [];
const system = matchMedia('(prefers-color-scheme: dark)');
const KEY = 'onnx-memopt-theme';

// A page from a file may have no storage.
function stored(): Theme | null {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : null;
  } catch {
    return null;
  }
}

let chosen = stored();

function current(): Theme {
  return chosen ?? (system.matches ? 'dark' : 'light');
}

function apply(): void {
  document.documentElement.dataset.theme = current();
  for (const listener of listeners) listener();
}

export function startTheme(): void {
  apply();
  system.addEventListener('change', apply);
}

export function onThemeChange(listener: () => void): void {
  listeners.push(listener);
}

export function color(name: string): string {
  return getComputedStyle(document.documentElement)
    .getPropertyValue(`--${name}`).trim();
}

export function themeButton(): HTMLElement {
  const button = h('button', { class: 'icon-button', id: 'theme' });
  const show = () => {
    const other = current() === 'dark' ? 'light' : 'dark';
    button.textContent = current() === 'dark' ? '\u2600' : '\u263e';
    button.title = `Switch to ${other} colours`;
    button.setAttribute('aria-label', button.title);
  };
  button.addEventListener('click', () => {
    chosen = current() === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // It holds for this visit only.
    }
    apply();
  });
  onThemeChange(show);
  show();
  return button;
}
