// A table of any length: sorted by a click on a column, filtered by a search.
// Only the rows in sight are elements.

import { h, replace } from './dom';
import { formatInteger } from './format';

const ROW_HEIGHT = 30; // as in style.css
const SPARE = 8; // rows above and below those in sight

export interface Column<Row> {
  title: string;
  hint?: string;
  // What rows are sorted by; null sorts last.
  value: (row: Row) => string | number | null;
  text?: (row: Row) => string;
  number?: boolean;
  width: string;
}

export interface TableOptions<Row> {
  id: string;
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  // What a search looks into.
  words: (row: Row) => string;
  // The column that rows are sorted by at first, the largest value first.
  sortBy: number;
  choose: (row: Row) => void;
}

export interface Table {
  element: HTMLElement;
  search: (text: string) => void;
}

function compare(a: string | number | null, b: string | number | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}

export function makeTable<Row>(options: TableOptions<Row>): Table {
  const { columns, rows } = options;
  const words = rows.map((row) => options.words(row).toLowerCase());
  let shown = rows.map((_, i) => i);
  let query = '';
  let sortColumn = options.sortBy;
  let descending = true;
  let active = 0; // a place in `shown`
  let first = -1;
  let last = -1;

  const count = h('span', { class: 'count', role: 'status' });
  const body = h('tbody');
  const headers = columns.map((column, at) => {
    const arrow = h('span', { class: 'arrow', 'aria-hidden': true });
    // Beside the numbers, not above them.
    const button = h('button', { type: 'button', title: column.hint },
      column.number === true && arrow, column.title,
      column.number !== true && arrow);
    button.addEventListener('click', () => {
      descending = sortColumn === at ? !descending : column.number === true;
      sortColumn = at;
      update();
    });
    return h('th', { scope: 'col', class: column.number ? 'number' : '' },
      button);
  });
  const grid = h('table', {
    id: options.id, 'aria-label': options.label,
    'aria-colcount': columns.length,
  },
  h('colgroup', {}, ...columns.map((column) => {
    const col = h('col');
    col.style.width = column.width;
    return col;
  })),
  h('thead', {}, h('tr', { 'aria-rowindex': 1 }, ...headers)), body);
  const scroller = h('div', {
    class: 'scroller', tabindex: 0, role: 'region',
    'aria-label': `${options.label}; arrow keys choose a row, Enter shows it`,
  }, grid);

  const rowElement = (place: number) => {
    const index = shown[place] ?? 0;
    const row = rows[index] as Row;
    const element = h('tr', {
      id: `${options.id}-row-${place}`, 'aria-rowindex': place + 2,
      class: place === active ? 'active' : '',
    }, ...columns.map((column) => {
      const text = column.text
        ? column.text(row) : String(column.value(row) ?? '');
      return h('td', { class: column.number ? 'number' : '', title: text },
        text);
    }));
    element.addEventListener('click', () => {
      active = place;
      options.choose(row);
      render(true);
    });
    return element;
  };

  const spacer = (height: number) => {
    const cell = h('td', { colspan: columns.length });
    cell.style.height = `${height}px`;
    return h('tr', { class: 'spacer', 'aria-hidden': true }, cell);
  };

  const render = (force: boolean) => {
    const from = Math.max(
      0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - SPARE);
    const height = scroller.clientHeight || 480;
    const to = Math.min(
      shown.length, from + Math.ceil(height / ROW_HEIGHT) + 2 * SPARE);
    if (!force && from === first && to === last) return;
    first = from;
    last = to;
    const visible = [];
    for (let place = from; place < to; ++place) visible.push(rowElement(place));
    replace(body, from > 0 && spacer(from * ROW_HEIGHT), ...visible,
      to < shown.length && spacer((shown.length - to) * ROW_HEIGHT));
    scroller.setAttribute('aria-activedescendant',
      shown.length > 0 ? `${options.id}-row-${active}` : '');
  };

  const update = () => {
    const parts = query.toLowerCase().split(/\s+/).filter((part) => part !== '');
    shown = [];
    words.forEach((text, i) => {
      if (parts.every((part) => text.includes(part))) shown.push(i);
    });
    const { value } = columns[sortColumn] as Column<Row>;
    const keys = rows.map(value);
    const sign = descending ? -1 : 1;
    shown.sort((a, b) => {
      const x = keys[a] ?? null;
      const y = keys[b] ?? null;
      // What is not known is last in both directions.
      const order = x === null || y === null
        ? compare(x, y) : sign * compare(x, y);
      return order || a - b;
    });
    headers.forEach((header, at) => {
      const own = at === sortColumn;
      const order = descending ? 'descending' : 'ascending';
      header.setAttribute('aria-sort', own ? order : 'none');
    });
    grid.setAttribute('aria-rowcount', String(shown.length + 1));
    count.textContent = shown.length === rows.length
      ? formatInteger(rows.length)
      : `${formatInteger(shown.length)} of ${formatInteger(rows.length)}`;
    active = 0;
    scroller.scrollTop = 0;
    render(true);
  };

  const reveal = () => {
    const top = active * ROW_HEIGHT;
    const room = scroller.clientHeight - 2 * ROW_HEIGHT;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
    render(true);
  };

  scroller.addEventListener('scroll', () => render(false), { passive: true });
  scroller.addEventListener('keydown', (event) => {
    if (event.target !== scroller) return;
    const page = Math.max(1, Math.floor(scroller.clientHeight / ROW_HEIGHT) - 2);
    const moves: Record<string, number> = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -shown.length, End: shown.length,
    };
    const move = moves[event.key];
    if (move !== undefined) {
      event.preventDefault();
      active = Math.max(0, Math.min(shown.length - 1, active + move));
      reveal();
    } else if (event.key === 'Enter' && shown.length > 0) {
      event.preventDefault();
      options.choose(rows[shown[active] ?? 0] as Row);
    }
  });
  new ResizeObserver(() => render(false)).observe(scroller);
  update();
  return {
    element: h('div', { class: 'table' },
      h('p', { class: 'table-count' }, count, ` ${options.label.toLowerCase()}`),
      scroller),
    search: (text) => {
      query = text;
      update();
    },
  };
}
